#include "algorithm.h"

namespace cleave::mpi {
namespace {

// What a rank may send at most when everyone sends everything to everyone.
constexpr int64_t kMaxFanOutBytes = 256 * 1024;

/// Sums that a ring would round at every hop.
bool rounds_each_hop(cleave_dtype dtype, cleave_reduction reduction) {
  return reduction == CLEAVE_SUM && (dtype == CLEAVE_BFLOAT16 || dtype == CLEAVE_FLOAT16);
}

}  // namespace

Algorithm choose_algorithm(cleave_op op, cleave_dtype dtype, cleave_reduction reduction,
                           int64_t bytes, int ranks) {
  const bool is_small = bytes < kLargeBytes || ranks == 1;
  switch (op) {
    case CLEAVE_ALL_REDUCE:
      if (is_small && (ranks == 1 || bytes * (ranks - 1) <= kMaxFanOutBytes))
        return Algorithm::direct;
      return rounds_each_hop(dtype, reduction) ? Algorithm::direct_then_ring : Algorithm::ring;
    case CLEAVE_REDUCE_SCATTER:
      return is_small || rounds_each_hop(dtype, reduction) ? Algorithm::direct : Algorithm::ring;
    case CLEAVE_ALL_GATHER:
      return is_small ? Algorithm::direct : Algorithm::ring;
    case CLEAVE_ALL_TO_ALL:
      return Algorithm::direct;
    case CLEAVE_BROADCAST:
      return Algorithm::chain;
    case CLEAVE_BARRIER:
      return Algorithm::dissemination;
    default:
      return Algorithm::message;
  }
}

const char* algorithm_name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::direct:
      return "direct";
    case Algorithm::ring:
      return "ring";
    case Algorithm::direct_then_ring:
      return "direct + ring";
    case Algorithm::chain:
      return "chain";
    case Algorithm::message:
      return "message";
    case Algorithm::dissemination:
      return "dissemination";
  }
  return nullptr;
}

}  // namespace cleave::mpi
