// A communicator over the host's key-value store, for what ranks tell each other outside of steps
// when the run's backend moves no host memory: fingerprints, faults, names. It is slow (a round
// trip to the store for each rank and operation, all content through rank 0) and keeps no thread.
#pragma once

#include <string>

#include "cleave/communicator.h"
#include "process.h"

namespace cleave {

/// Over all ranks of `bootstrap`, which outlives it. `name` tells the run's store communicators
/// apart. On the CPU, all dtypes: all_reduce, all_gather (and its v form), broadcast, barrier. Each
/// is done when submit returns; sums are formed in rank order on every rank. An abort reaches other
/// ranks where they are threads of this process, else they end at their timeout.
cleave_communicator* make_store_communicator(const Bootstrap& bootstrap, const std::string& name);

}  // namespace cleave
