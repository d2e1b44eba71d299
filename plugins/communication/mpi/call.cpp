#include "call.h"

#include <algorithm>
#include <numeric>

#include "cleave/backend.h"

namespace cleave::mpi {
namespace {

bool has_blocks(int32_t op) {
  return op == CLEAVE_REDUCE_SCATTER || op == CLEAVE_ALL_GATHER || op == CLEAVE_ALL_TO_ALL;
}

std::vector<int64_t> spread(const int64_t* given, int64_t count, int ranks) {
  if (given) return {given, given + ranks};
  return std::vector<int64_t>(static_cast<size_t>(ranks), count);
}

}  // namespace

Call::Call(const cleave_collective& collective, int ranks)
    : op(static_cast<cleave_op>(collective.op)),
      dtype(static_cast<cleave_dtype>(collective.dtype)),
      reduction(static_cast<cleave_reduction>(collective.reduction)),
      peer(collective.peer),
      tag(collective.tag),
      is_uneven(collective.recv_counts != nullptr),
      send(collective.send),
      recv(collective.recv),
      count(collective.count),
      element_bytes(dtype_bytes(collective.dtype)) {
  int64_t elements = op == CLEAVE_BARRIER ? 0 : count;
  if (has_blocks(op)) {
    counts = spread(collective.recv_counts, count, ranks);
    elements = sum(counts);
  }
  if (op == CLEAVE_ALL_TO_ALL) {
    send_counts = spread(collective.send_counts, count, ranks);
    elements = std::max(elements, sum(send_counts));
  }
  bytes = elements * element_bytes;
}

std::vector<int64_t> blocks(int64_t count, int ranks) {
  std::vector<int64_t> result(static_cast<size_t>(ranks), count / ranks);
  for (int64_t rank = 0; rank < count % ranks; ++rank) ++result[static_cast<size_t>(rank)];
  return result;
}

std::vector<int64_t> offsets(const std::vector<int64_t>& counts) {
  std::vector<int64_t> result(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), result.begin(), int64_t{0});
  return result;
}

int64_t sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace cleave::mpi
