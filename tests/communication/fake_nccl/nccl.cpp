#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "exchange.h"
#include "state.h"

namespace cleave::fake {
namespace {

struct Peers;

/// A rank's side of a communicator; streams' tasks keep it alive.
struct Side {
  std::shared_ptr<Peers> peers;
  int rank = 0;
  bool is_finalized = false;
};

struct Split {
  struct Wish {
    int color, key, rank;
    ncclComm_t* target;
  };
  std::vector<Wish> wishes;
};

/// All ranks of a communicator.
struct Peers {
  explicit Peers(int n)
      : exchange(n), has_issued(static_cast<size_t>(n)), num_splits(static_cast<size_t>(n)) {}
  std::mutex mutex;
  Exchange exchange;
  int joined = 0;
  std::vector<char> has_issued;  // by rank; the first operation connects all of them
  std::vector<int> num_splits;   // asked for, by rank
  std::vector<Split> splits;
};

thread_local int group_depth = 0;

std::mutex meeting_mutex;
std::map<std::string, std::shared_ptr<Peers>> meetings;  // by unique id
int next_unique_id = 0;

}  // namespace
}  // namespace cleave::fake

struct ncclComm {
  std::shared_ptr<cleave::fake::Side> side;
};

namespace cleave::fake {
namespace {

struct Queued {
  ncclComm_t comm;
  cudaStream_t stream;
  Operation operation;
};
thread_local std::vector<Queued> queued;

std::mutex live_mutex;
std::set<ncclComm_t> live;

ncclComm_t make_comm(std::shared_ptr<Peers> peers, int rank) {
  auto* comm = new ncclComm{std::make_shared<Side>(Side{std::move(peers), rank})};
  {
    const std::lock_guard lock(live_mutex);
    live.insert(comm);
  }
  const std::lock_guard lock(state().mutex);
  ++state().counts.comms;
  return comm;
}

void destroy_comm(ncclComm_t comm) {
  {
    const std::lock_guard lock(live_mutex);
    if (live.erase(comm) == 0) std::abort();  // destroyed twice
  }
  delete comm;
  const std::lock_guard lock(state().mutex);
  --state().counts.comms;
}

/// One task for each communicator and stream of the group.
void launch(std::vector<Queued> group) {
  while (!group.empty()) {
    const ncclComm_t comm = group.front().comm;
    const cudaStream_t stream = group.front().stream;
    std::vector<Operation> operations;
    std::erase_if(group, [&](const Queued& item) {
      if (item.comm != comm || item.stream != stream) return false;
      operations.push_back(item.operation);
      return true;
    });
    auto side = comm->side;
    {
      const std::lock_guard lock(side->peers->mutex);
      side->peers->has_issued[static_cast<size_t>(side->rank)] = 1;
    }
    executor(stream).push(
        [side, operations] { side->peers->exchange.run(side->rank, operations); });
  }
}

ncclResult_t issue(const char* name, ncclComm_t comm, cudaStream_t stream,
                   const Operation& operation) {
  record({0, name, operation.count, executor(stream).id(), 0, group_depth, operation.peer});
  if (const ncclResult_t result = settings().operation_result; result != ncclSuccess) return result;
  queued.push_back({comm, stream, operation});
  if (group_depth > 0) return ncclSuccess;
  launch(std::exchange(queued, {}));
  return ncclInProgress;
}

// What has been asked of all ranks and not of this one alone.
bool is_busy(const Side& side) {
  Peers& peers = *side.peers;
  const std::lock_guard lock(peers.mutex);
  const auto rank = static_cast<size_t>(side.rank);
  if (peers.joined < peers.exchange.size()) return true;
  const bool is_connected =
      std::all_of(peers.has_issued.begin(), peers.has_issued.end(), [](char one) { return one; });
  if (peers.has_issued[rank] && !is_connected) return true;
  if (peers.num_splits[rank] == 0) return false;
  const Split& last = peers.splits[static_cast<size_t>(peers.num_splits[rank]) - 1];
  return static_cast<int>(last.wishes.size()) < peers.exchange.size();
}

void carry_out(Split& split) {
  auto& wishes = split.wishes;
  std::stable_sort(wishes.begin(), wishes.end(), [](const auto& a, const auto& b) {
    return std::tie(a.color, a.key, a.rank) < std::tie(b.color, b.key, b.rank);
  });
  for (size_t begin = 0, end = 0; begin < wishes.size(); begin = end) {
    while (end < wishes.size() && wishes[end].color == wishes[begin].color) ++end;
    if (wishes[begin].color == NCCL_SPLIT_NOCOLOR) continue;
    auto peers = std::make_shared<Peers>(static_cast<int>(end - begin));
    peers->joined = static_cast<int>(end - begin);
    for (size_t i = begin; i < end; ++i)
      *wishes[i].target = make_comm(peers, static_cast<int>(i - begin));
  }
}

}  // namespace
}  // namespace cleave::fake

using namespace cleave::fake;

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "fake NCCL error";
}

const char* ncclGetLastError(ncclComm_t) {
  return "the fake was told to fail";
}

ncclResult_t ncclGetVersion(int* version) {
  *version = settings().version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(meeting_mutex);
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "fake %d", ++next_unique_id);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  record({0, "ncclCommInitRankConfig", static_cast<size_t>(size)});
  const Settings now = settings();
  if (now.init_result != ncclSuccess) return now.init_result;
  if (config->blocking != 0) return ncclInvalidArgument;
  const std::lock_guard lock(meeting_mutex);
  auto& peers = meetings[id.internal];
  if (!peers) peers = std::make_shared<Peers>(size);
  *comm = make_comm(peers, rank);
  const std::lock_guard peers_lock(peers->mutex);
  ++peers->joined;
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child,
                           ncclConfig_t* config) {
  record({0, "ncclCommSplit", 0, 0, 0, group_depth});
  if (config->blocking != 0) return ncclInvalidArgument;
  *child = nullptr;
  Peers& peers = *comm->side->peers;
  const std::lock_guard lock(peers.mutex);
  const auto number =
      static_cast<size_t>(peers.num_splits[static_cast<size_t>(comm->side->rank)]++);
  peers.splits.resize(std::max(peers.splits.size(), number + 1));
  Split& split = peers.splits[number];
  split.wishes.push_back({color, key, comm->side->rank, child});
  if (static_cast<int>(split.wishes.size()) == peers.exchange.size()) carry_out(split);
  return ncclInProgress;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->side->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* size) {
  *size = comm->side->peers->exchange.size();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  {
    const std::lock_guard lock(state().mutex);
    *result = state().async_error;
  }
  if (*result == ncclSuccess && is_busy(*comm->side)) *result = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  record({0, "ncclCommFinalize"});
  comm->side->is_finalized = true;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  record({0, "ncclCommDestroy"});
  if (!comm->side->is_finalized) return ncclInvalidUsage;
  destroy_comm(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  record({0, "ncclCommAbort"});
  comm->side->peers->exchange.abort(comm->side->rank);
  {
    std::unique_lock lock(state().mutex);
    state().changed.wait(lock, [] { return !state().settings.abort_blocks; });
  }
  destroy_comm(comm);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  record({0, "ncclGroupStart", 0, 0, 0, group_depth});
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  --group_depth;
  record({0, "ncclGroupEnd", 0, 0, 0, group_depth});
  if (group_depth > 0 || queued.empty()) return ncclSuccess;
  launch(std::exchange(queued, {}));
  return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return issue("ncclAllReduce", comm, stream,
               {Kind::all_reduce, send, recv, count, type, reduction, -1});
}

ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t comm, cudaStream_t stream) {
  return issue("ncclReduce", comm, stream,
               {Kind::reduce, send, recv, count, type, reduction, root});
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return issue("ncclReduceScatter", comm, stream,
               {Kind::reduce_scatter, send, recv, count, type, reduction, -1});
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue("ncclAllGather", comm, stream,
               {Kind::all_gather, send, recv, count, type, ncclSum, -1});
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return issue("ncclBroadcast", comm, stream,
               {Kind::broadcast, send, recv, count, type, ncclSum, root});
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return issue("ncclSend", comm, stream, {Kind::send, send, nullptr, count, type, ncclSum, peer});
}

ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return issue("ncclRecv", comm, stream, {Kind::recv, nullptr, recv, count, type, ncclSum, peer});
}

}  // extern "C"
