// Which algorithm does an operation: a choice by sizes, ranks and machines alone, so that all ranks
// make the same one.
#pragma once

#include <cstdint>
#include <string_view>

#include "cleave/communicator.h"
#include "link.h"

namespace cleave::mpi {

/// From this size on the thread takes over at once, and operations wait for their turn.
constexpr int64_t kLargeBytes = 64 * 1024;

enum class Algorithm {
  automatic,         ///< the cheapest by the formulas in algorithm.cpp
  direct,            ///< one message from each rank to each other one, all at once
  ring,              ///< in segments, always to the next rank
  halving,           ///< recursive halving and doubling
  two_level,         ///< in shared memory inside a machine, a ring across machines
  ordered_levels,    ///< the same with direct sums across machines, added in their order
  rounded_levels,    ///< the same of 16-bit floats: float32 sums cross, rounded results come back
  shared,            ///< in shared memory
  direct_then_ring,  ///< all_reduce: direct reduce-scatter, ring all-gather
  chain,             ///< broadcast, in segments from rank to rank
  message,           ///< send, recv
  dissemination      ///< barrier: doubling distances
};

/// Of a communicator.
struct Shape {
  int ranks = 1;
  int machines = 1;
  int ranks_per_machine = 1;
  bool is_shared = false;       ///< one machine, whose ranks share memory
  bool has_levels = false;      ///< several machines, whose ranks share memory
  bool is_consecutive = false;  ///< the ranks of a machine follow each other
};

struct Policy {
  Algorithm forced = Algorithm::automatic;  ///< used wherever it can do the operation
  /// Every sum in one order: that of the ranks, where levels exist inside a machine, and then that
  /// of the machines.
  bool deterministic = false;
  int64_t max_message_bytes = 0;  ///< of one MPI call
  Link link;
};

/// `bytes` are those of the larger buffer. `is_uneven`: the v form of all_to_all, whose sizes only
/// the ranks concerned know.
Algorithm choose_algorithm(cleave_op op, cleave_dtype dtype, cleave_reduction reduction,
                           int64_t bytes, const Shape& shape, const Policy& policy,
                           bool is_uneven = false);
/// Whether it works in shared memory first, then across machines.
bool has_levels(Algorithm algorithm);
const char* algorithm_name(Algorithm algorithm);
/// As options spell those that can be forced; automatic for "auto".
Algorithm parse_algorithm(std::string_view name);

}  // namespace cleave::mpi
