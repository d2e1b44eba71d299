#include "topology.h"

#include <algorithm>
#include <map>

namespace cleave::mpi {
namespace {

/// Whether `mine` is true on all ranks.
bool agree(const Channel& channel, bool mine) {
  const int value = mine ? 1 : 0;
  int all = 0;
  check(MPI_Allreduce(&value, &all, 1, MPI_INT, MPI_MIN, channel.comm), "MPI_Allreduce");
  return all == 1;
}

}  // namespace

Topology find_topology(const Channel& channel, const Neighbours& neighbours) {
  const std::vector<int>& world = channel.world_ranks;
  Topology topology;
  std::map<int, std::vector<int>> machines;  // ranks of the channel, ascending
  for (int rank = 0; rank < channel.size; ++rank) {
    topology.machine_of.push_back(neighbours.machine_of(world[static_cast<size_t>(rank)]));
    machines[topology.machine_of.back()].push_back(rank);
  }
  topology.machines = static_cast<int>(machines.size());
  for (const auto& [machine, ranks] : machines) {
    topology.ranks_per_machine =
        std::max(topology.ranks_per_machine, static_cast<int>(ranks.size()));
    topology.all.ranks.insert(topology.all.ranks.end(), ranks.begin(), ranks.end());
  }
  const auto& all = topology.all.ranks;
  topology.is_consecutive = std::is_sorted(all.begin(), all.end());
  topology.all.rank =
      static_cast<int>(std::find(all.begin(), all.end(), channel.rank) - all.begin());

  const std::vector<int>& here =
      machines.at(topology.machine_of[static_cast<size_t>(channel.rank)]);
  const auto place = std::find(here.begin(), here.end(), channel.rank) - here.begin();
  for (const auto& [machine, ranks] : machines) {
    topology.is_even &= ranks.size() == here.size();
    if (static_cast<size_t>(place) >= ranks.size()) continue;
    if (ranks[static_cast<size_t>(place)] == channel.rank)
      topology.across.rank = topology.across.size();
    topology.across.ranks.push_back(ranks[static_cast<size_t>(place)]);
  }
  if (!topology.is_even) topology.across = {0, {channel.rank}};

  std::vector<std::byte*> bases;
  for (const int rank : here)
    bases.push_back(neighbours.arena_of(world[static_cast<size_t>(rank)]));
  const bool is_shared = here.size() == 1 || std::count(bases.begin(), bases.end(), nullptr) == 0;
  if (topology.is_even && topology.ranks_per_machine > 1 && agree(channel, is_shared))
    topology.node = std::make_shared<Node>(channel, *neighbours.arena(), here, std::move(bases));
  return topology;
}

}  // namespace cleave::mpi
