// Which algorithm does an operation: a choice by sizes and ranks alone, so that all ranks make the
// same one.
#pragma once

#include <cstdint>

#include "cleave/communicator.h"

namespace cleave::mpi {

/// From this size on the thread takes over at once, and rings replace single messages.
constexpr int64_t kLargeBytes = 64 * 1024;

enum class Algorithm {
  direct,            ///< one message from each rank to each other one, all at once
  ring,              ///< in segments, always to the next rank
  direct_then_ring,  ///< all_reduce of 16-bit floats: direct reduce-scatter, ring all-gather
  chain,             ///< broadcast, in segments from rank to rank
  message,           ///< send, recv
  dissemination      ///< barrier: doubling distances
};

/// `bytes` are those of the larger buffer.
Algorithm choose_algorithm(cleave_op op, cleave_dtype dtype, cleave_reduction reduction,
                           int64_t bytes, int ranks);
const char* algorithm_name(Algorithm algorithm);

}  // namespace cleave::mpi
