#include "network_bytes.h"

#include <algorithm>
#include <set>

namespace cleave::mpi {
namespace {

int count_machines(const std::vector<int>& machine_of) {
  return static_cast<int>(std::set(machine_of.begin(), machine_of.end()).size());
}

/// Ordered pairs of ranks on two machines.
int64_t count_pairs(const std::vector<int>& machine_of) {
  int64_t pairs = 0;
  for (const int from : machine_of)
    pairs +=
        std::count_if(machine_of.begin(), machine_of.end(), [&](int to) { return to != from; });
  return pairs;
}

/// Ranks whose partner at this distance, rank xor distance, is on another machine.
int count_far_partners(const std::vector<int>& machine_of, size_t distance) {
  int ranks = 0;
  for (size_t rank = 0; rank < machine_of.size(); ++rank)
    ranks += machine_of[rank] != machine_of[rank ^ distance];
  return ranks;
}

/// Links of the chain rank 0, 1, .. between two machines.
int count_chain_links(const std::vector<int>& machine_of) {
  int links = 0;
  for (size_t rank = 1; rank < machine_of.size(); ++rank)
    links += machine_of[rank] != machine_of[rank - 1];
  return links;
}

/// For each distance d = 1, 2, .., n/2, every rank sends d blocks to its partner.
double halving(double block, const std::vector<int>& machine_of) {
  double bytes = 0;
  for (size_t distance = 1; distance < machine_of.size(); distance *= 2)
    bytes += count_far_partners(machine_of, distance) * static_cast<double>(distance) * block;
  return bytes;
}

}  // namespace

// S bytes over n ranks on M > 1 machines, P ordered pairs of ranks on two of them (with k ranks on
// each: P = n (n - k)); all_reduce takes two phases, reduce_scatter and all_gather one.
//   direct            P S, for an all_reduce; else P S/n: each rank sends each other one its block
//   ring              phases M (n-1)/n S: leaves each machine once (topology.h), with all blocks
//                     but one
//   halving-doubling  phases (sum over d = 1, 2, .., n/2 of d S/n for each rank r that has r xor d
//                     on another machine)
//   two-level         phases (M-1) S, ordered or not: k times M ranks, which share S/k; with
//                     float32 sums of 16-bit floats (phases + 1) (M-1) S
//   direct + ring     P S/n + M (n-1)/n S
//   chain             S for each of the links from rank to rank that join two machines
//   dissemination     0: empty messages
double network_bytes(cleave_op op, Algorithm algorithm, int64_t bytes,
                     const std::vector<int>& machine_of) {
  const int machines = count_machines(machine_of);
  if (machines <= 1) return 0;
  const auto whole = static_cast<double>(bytes);
  const auto ranks = static_cast<double>(machine_of.size());
  const double block = whole / ranks;
  const double phases = op == CLEAVE_ALL_REDUCE ? 2 : 1;
  const auto pairs = static_cast<double>(count_pairs(machine_of));
  const double ring = machines * (ranks - 1) * block;
  switch (algorithm) {
    case Algorithm::direct:
      return pairs * (op == CLEAVE_ALL_REDUCE ? whole : block);
    case Algorithm::ring:
      return phases * ring;
    case Algorithm::halving:
      return phases * halving(block, machine_of);
    case Algorithm::two_level:
    case Algorithm::ordered_levels:
      return phases * (machines - 1) * whole;
    case Algorithm::rounded_levels:
      return (phases + 1) * (machines - 1) * whole;
    case Algorithm::direct_then_ring:
      return pairs * block + ring;
    case Algorithm::chain:
      return count_chain_links(machine_of) * whole;
    case Algorithm::dissemination:
      return 0;
    case Algorithm::automatic:
    case Algorithm::shared:
    case Algorithm::message:
      break;
  }
  return -1;
}

}  // namespace cleave::mpi
