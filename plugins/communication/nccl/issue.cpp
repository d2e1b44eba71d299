#include "issue.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cleave/backend.h"

namespace cleave::nccl {
namespace {

constexpr int kSender = 0;
constexpr int kReceiver = 1;

ncclDataType_t type_of(const cleave_collective& call) {
  constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat16,
                                       ncclInt32,   ncclInt64,   ncclUint8};
  return kTypes[call.dtype];
}

ncclRedOp_t reduction_of(const cleave_collective& call) {
  return call.reduction == CLEAVE_MAX ? ncclMax : ncclSum;
}

const std::byte* at(const void* buffer, int64_t element, const cleave_collective& call) {
  return static_cast<const std::byte*>(buffer) + element * dtype_bytes(call.dtype);
}
std::byte* at(void* buffer, int64_t element, const cleave_collective& call) {
  return static_cast<std::byte*>(buffer) + element * dtype_bytes(call.dtype);
}

/// Those of the v form, or `count` for each rank.
std::vector<int64_t> counts(const int64_t* given, int64_t count, int size) {
  if (given) return {given, given + size};
  return std::vector<int64_t>(static_cast<size_t>(size), count);
}

bool are_equal(const std::vector<int64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t n) { return n == counts[0]; });
}

/// Calls `one(rank, first element, elements)` for every rank with elements, as one group.
template <typename One>
ncclResult_t for_each_block(const std::vector<int64_t>& counts, const One& one) {
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) return result;
  int64_t begin = 0;
  for (size_t rank = 0; rank < counts.size() && result == ncclSuccess; ++rank) {
    if (counts[rank] > 0) result = one(static_cast<int>(rank), begin, counts[rank]);
    begin += counts[rank];
  }
  const ncclResult_t end = ncclGroupEnd();  // after a failure too: the group must not stay open
  return result == ncclSuccess ? end : result;
}

ncclResult_t reduce_scatter(const cleave_collective& call, int rank, int size, ncclComm_t comm,
                            cudaStream_t stream) {
  const auto blocks = counts(call.recv_counts, call.count, size);
  if (are_equal(blocks))
    return blocks[0] == 0 ? ncclSuccess
                          : ncclReduceScatter(call.send, call.recv, static_cast<size_t>(blocks[0]),
                                              type_of(call), reduction_of(call), comm, stream);
  return for_each_block(blocks, [&](int root, int64_t begin, int64_t elements) {
    return ncclReduce(at(call.send, begin, call), root == rank ? call.recv : nullptr,
                      static_cast<size_t>(elements), type_of(call), reduction_of(call), root, comm,
                      stream);
  });
}

ncclResult_t all_gather(const cleave_collective& call, int rank, int size, ncclComm_t comm,
                        cudaStream_t stream) {
  const auto blocks = counts(call.recv_counts, call.count, size);
  if (are_equal(blocks))
    return blocks[0] == 0 ? ncclSuccess
                          : ncclAllGather(call.send, call.recv, static_cast<size_t>(blocks[0]),
                                          type_of(call), comm, stream);
  return for_each_block(blocks, [&](int root, int64_t begin, int64_t elements) {
    return ncclBroadcast(root == rank ? call.send : nullptr, at(call.recv, begin, call),
                         static_cast<size_t>(elements), type_of(call), root, comm, stream);
  });
}

ncclResult_t all_to_all(const cleave_collective& call, int size, ncclComm_t comm,
                        cudaStream_t stream) {
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) return result;
  result = for_each_block(
      counts(call.send_counts, call.count, size), [&](int peer, int64_t begin, int64_t elements) {
        return ncclSend(at(call.send, begin, call), static_cast<size_t>(elements), type_of(call),
                        peer, comm, stream);
      });
  if (result == ncclSuccess)
    result = for_each_block(
        counts(call.recv_counts, call.count, size), [&](int peer, int64_t begin, int64_t elements) {
          return ncclRecv(at(call.recv, begin, call), static_cast<size_t>(elements), type_of(call),
                          peer, comm, stream);
        });
  const ncclResult_t end = ncclGroupEnd();
  return result == ncclSuccess ? end : result;
}

}  // namespace

ncclResult_t issue(const cleave_collective& call, int rank, int size, ncclComm_t comm,
                   cudaStream_t stream) {
  const auto elements = static_cast<size_t>(call.count);
  switch (call.op) {
    case CLEAVE_REDUCE_SCATTER:
      return reduce_scatter(call, rank, size, comm, stream);
    case CLEAVE_ALL_GATHER:
      return all_gather(call, rank, size, comm, stream);
    case CLEAVE_ALL_TO_ALL:
      return all_to_all(call, size, comm, stream);
    default:
      break;
  }
  if (elements == 0) return ncclSuccess;
  switch (call.op) {
    case CLEAVE_BROADCAST:
      return ncclBroadcast(call.recv, call.recv, elements, type_of(call), call.peer, comm, stream);
    case CLEAVE_SEND:
      return ncclSend(call.send, elements, type_of(call), kReceiver, comm, stream);
    case CLEAVE_RECV:
      return ncclRecv(call.recv, elements, type_of(call), kSender, comm, stream);
    default:  // all_reduce, and a barrier as one
      return ncclAllReduce(call.send, call.recv, elements, type_of(call), reduction_of(call), comm,
                           stream);
  }
}

}  // namespace cleave::nccl
