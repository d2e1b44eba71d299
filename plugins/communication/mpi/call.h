// An operation as submitted, with counts of its own for each rank.
#pragma once

#include <cstdint>
#include <vector>

#include "cleave/communicator.h"

namespace cleave::mpi {

struct Call {
  /// `ranks` of the communicator.
  Call(const cleave_collective& collective, int ranks);

  cleave_op op;
  cleave_dtype dtype;
  cleave_reduction reduction;
  int peer;
  int tag;
  bool is_uneven;  ///< the v form
  const void* send;
  void* recv;
  int64_t count;
  int64_t element_bytes;
  std::vector<int64_t> counts;       ///< reduce_scatter, all_gather, all_to_all: what is received
  std::vector<int64_t> send_counts;  ///< all_to_all
  int64_t bytes;                     ///< of the larger buffer

  const std::byte* send_at(int64_t element) const {
    return static_cast<const std::byte*>(send) + element * element_bytes;
  }
  std::byte* recv_at(int64_t element) const {
    return static_cast<std::byte*>(recv) + element * element_bytes;
  }
};

/// As equal as possible; the first ones are one longer.
std::vector<int64_t> blocks(int64_t count, int ranks);
/// Elements before each block.
std::vector<int64_t> offsets(const std::vector<int64_t>& counts);
int64_t sum(const std::vector<int64_t>& counts);

}  // namespace cleave::mpi
