#include "algorithm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "cleave/error.h"

namespace cleave::mpi {
namespace {

// What a rank may send at most when everyone sends everything to everyone.
constexpr int64_t kMaxFanOutBytes = 256 * 1024;

// How fast a core adds what it has received to its own.
constexpr double kSumGbS = 5;

constexpr std::array<std::pair<Algorithm, const char*>, 12> kNames = {{
    {Algorithm::automatic, "auto"},
    {Algorithm::direct, "direct"},
    {Algorithm::ring, "ring"},
    {Algorithm::halving, "halving-doubling"},
    {Algorithm::two_level, "two-level"},
    {Algorithm::ordered_levels, "two-level, ordered"},
    {Algorithm::rounded_levels, "two-level, float32 sums"},
    {Algorithm::shared, "shared-memory"},
    {Algorithm::direct_then_ring, "direct + ring"},
    {Algorithm::chain, "chain"},
    {Algorithm::message, "message"},
    {Algorithm::dissemination, "dissemination"},
}};

/// A reduction or gather to be done.
struct Question {
  cleave_op op;
  bool is_rounded;  // a sum of 16-bit floats, to be rounded once
  bool is_ordered;  // a sum in the order that Policy::deterministic means
  double bytes;
  const Shape& shape;
  const Policy& policy;
};

bool can_do(const Question& q, Algorithm algorithm) {
  const bool gathers_only = q.op == CLEAVE_ALL_GATHER;
  const bool is_exact = q.is_rounded || q.is_ordered;
  const bool has_levels =
      q.shape.has_levels && (q.op == CLEAVE_ALL_REDUCE || q.shape.is_consecutive);
  switch (algorithm) {
    case Algorithm::shared:
      return q.shape.is_shared;
    case Algorithm::direct:  // large ones would all arrive at one port at once
      return (q.op == CLEAVE_REDUCE_SCATTER && is_exact) ||
             q.bytes * (q.shape.ranks - 1) <= static_cast<double>(kMaxFanOutBytes);
    case Algorithm::direct_then_ring:
      return q.op == CLEAVE_ALL_REDUCE && is_exact;
    case Algorithm::ring:
      return gathers_only || !is_exact;
    case Algorithm::halving:
      return (gathers_only || !is_exact) &&
             std::has_single_bit(static_cast<unsigned>(q.shape.ranks)) &&
             q.bytes <= static_cast<double>(q.policy.max_message_bytes);
    case Algorithm::two_level:
      return has_levels && (gathers_only || !is_exact);
    case Algorithm::ordered_levels:
      return has_levels && !gathers_only && q.is_ordered && !q.is_rounded;
    case Algorithm::rounded_levels:
      return has_levels && !gathers_only && q.is_rounded;
    default:
      return false;
  }
}

/// Microseconds by the usual model (Thakur, Rabenseifner, Gropp 2005), where the ranks of a machine
/// share its link; what happens inside a machine is left out.
double cost(const Question& q, Algorithm algorithm) {
  const Link& link = q.policy.link;
  const double n = q.shape.ranks, machines = q.shape.machines, k = q.shape.ranks_per_machine;
  const bool is_whole = q.op == CLEAVE_ALL_REDUCE;
  const double phases = is_whole ? 2 : 1;
  const double crossing = (machines - 1) / machines * q.bytes;  // leaves a machine at least
  switch (algorithm) {
    case Algorithm::direct:
      return link.us(1, is_whole ? k * (n - k) * q.bytes : k * crossing);
    case Algorithm::ring:
      return link.us(phases * (n - 1), phases * (n - 1) / n * q.bytes);
    case Algorithm::halving:  // a message is added up when all of it is there
      return link.us(phases * std::bit_width(static_cast<unsigned>(n - 1)), phases * k * crossing) +
             (q.op == CLEAVE_ALL_GATHER ? 0 : q.bytes / (kSumGbS * 1e3));
    case Algorithm::two_level:
    case Algorithm::ordered_levels:
      return link.us(phases * (machines - 1), phases * crossing);
    case Algorithm::rounded_levels:
      return link.us(phases * (machines - 1), (phases + 1) * crossing);
    default:  // direct_then_ring
      return link.us(n, k * crossing + (n - 1) / n * q.bytes);
  }
}

Algorithm choose(const Question& q) {
  if (q.shape.ranks == 1) return Algorithm::direct;
  if (can_do(q, q.policy.forced)) return q.policy.forced;
  if (q.policy.forced == Algorithm::two_level)
    for (const Algorithm levels : {Algorithm::ordered_levels, Algorithm::rounded_levels})
      if (can_do(q, levels)) return levels;
  if (q.shape.is_shared) return Algorithm::shared;
  Algorithm best = Algorithm::automatic;
  double least = 0;
  for (const Algorithm candidate :
       {Algorithm::direct, Algorithm::two_level, Algorithm::ordered_levels,
        Algorithm::rounded_levels, Algorithm::ring, Algorithm::halving,
        Algorithm::direct_then_ring}) {
    if (!can_do(q, candidate)) continue;
    const double us = cost(q, candidate);
    if (best != Algorithm::automatic && us >= least) continue;
    best = candidate;
    least = us;
  }
  return best;
}

}  // namespace

Algorithm choose_algorithm(cleave_op op, cleave_dtype dtype, cleave_reduction reduction,
                           int64_t bytes, const Shape& shape, const Policy& policy,
                           bool is_uneven) {
  const bool is_half = dtype == CLEAVE_BFLOAT16 || dtype == CLEAVE_FLOAT16;
  const bool is_shared = shape.is_shared && (policy.forced == Algorithm::automatic ||
                                             policy.forced == Algorithm::shared);
  switch (op) {
    case CLEAVE_ALL_REDUCE:
    case CLEAVE_REDUCE_SCATTER:
    case CLEAVE_ALL_GATHER:
      return choose({op, reduction == CLEAVE_SUM && is_half,
                     reduction == CLEAVE_SUM && policy.deterministic, static_cast<double>(bytes),
                     shape, policy});
    case CLEAVE_ALL_TO_ALL:
      return is_shared && !is_uneven ? Algorithm::shared : Algorithm::direct;
    case CLEAVE_BROADCAST:
      return is_shared ? Algorithm::shared : Algorithm::chain;
    case CLEAVE_BARRIER:
      return is_shared ? Algorithm::shared : Algorithm::dissemination;
    default:
      return Algorithm::message;
  }
}

bool has_levels(Algorithm algorithm) {
  return algorithm == Algorithm::two_level || algorithm == Algorithm::ordered_levels ||
         algorithm == Algorithm::rounded_levels;
}

const char* algorithm_name(Algorithm algorithm) {
  for (const auto& [known, name] : kNames)
    if (known == algorithm) return name;
  return nullptr;
}

Algorithm parse_algorithm(std::string_view name) {
  for (const auto& [known, spelt] : kNames)
    if (name == spelt) return known;
  throw RuntimeError(message("unknown algorithm ", name));
}

}  // namespace cleave::mpi
