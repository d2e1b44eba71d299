// One rank's call, kept by value, and how messages spell it.
#pragma once

#include <string>
#include <vector>

#include "cleave/communicator.h"

namespace cleave::local {

struct Call {
  Call() = default;
  Call(const cleave_collective& collective, int ranks);

  cleave_collective args{};
  // always filled for the ops that have counts, also for their plain form
  std::vector<int64_t> send_counts;
  std::vector<int64_t> recv_counts;
  bool arrived = false;
};

/// "all_reduce sum of 1024 float32", "all_gather of [3, 0] int64", "broadcast of 4 uint8 from rank
/// 1".
std::string describe(const Call& call);

/// Whether two ranks' calls belong to the same collective.
bool match(const Call& a, const Call& b);

}  // namespace cleave::local
