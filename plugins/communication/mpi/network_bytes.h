// What an operation sends between machines, by its algorithm's formula.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithm.h"

namespace cleave::mpi {

/// Bytes that all ranks together send to other machines, without headers. `bytes` are those of the
/// larger buffer, in equal blocks; a broadcast is rank 0's. `machine_of`: a number for the machine
/// of each rank. Negative for a send between machines, which does not say to whom.
double network_bytes(cleave_op op, Algorithm algorithm, int64_t bytes,
                     const std::vector<int>& machine_of);

}  // namespace cleave::mpi
