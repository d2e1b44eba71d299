// How a communicator's ranks lie on machines.
#pragma once

#include <memory>
#include <vector>

#include "channel.h"
#include "group.h"
#include "neighbours.h"
#include "node.h"

namespace cleave::mpi {

struct Topology {
  int machines = 1;
  int ranks_per_machine = 1;    ///< the most
  bool is_even = true;          ///< the same on each machine
  bool is_consecutive = true;   ///< machine m has the ranks m k .. (m+1) k - 1
  std::vector<int> machine_of;  ///< a number for the machine of each rank
  /// All ranks, machine after machine, so that a ring crosses each machine's link once.
  Group all;
  /// The ranks with the same place on their machines; this rank alone unless is_even.
  Group across;
  /// The ranks of this machine; nullptr unless is_even and the ranks of each machine are several
  /// and share memory.
  std::shared_ptr<Node> node;

  /// Whether the ranks of each machine can work together before and after the network.
  bool has_levels() const { return machines > 1 && node; }
};

/// Collective over the channel; under the runtime's lock.
Topology find_topology(const Channel& channel, const Neighbours& neighbours);

}  // namespace cleave::mpi
