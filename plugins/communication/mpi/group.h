// Some ranks of a channel, among which an algorithm runs.
#pragma once

#include <vector>

namespace cleave::mpi {

struct Group {
  int rank = 0;            ///< this one's place in `ranks`
  std::vector<int> ranks;  ///< in the channel

  int size() const { return static_cast<int>(ranks.size()); }
  int at(int place) const { return ranks[static_cast<size_t>(place)]; }
};

}  // namespace cleave::mpi
