// How a transfer travels when one MPI message may carry only so much (MPI counts are ints).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cleave::mpi {

struct Message {
  int64_t offset;
  int64_t bytes;
};

inline std::vector<Message> split_message(int64_t bytes, int64_t limit) {
  std::vector<Message> messages;
  for (int64_t offset = 0; offset < bytes; offset += limit)
    messages.push_back({offset, std::min(limit, bytes - offset)});
  return messages;
}

}  // namespace cleave::mpi
