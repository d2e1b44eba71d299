#include "mpi_communicator.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "algorithm.h"
#include "cleave/error.h"
#include "direct_reduce.h"
#include "exchange.h"
#include "ring.h"

namespace cleave::mpi {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr int kGuaranteedMaxTag = 32767;  // by the MPI standard

class MpiOperation final : public Operation {
 public:
  MpiOperation(std::shared_ptr<Runtime> runtime, std::shared_ptr<Task> task)
      : runtime_(std::move(runtime)), task_(std::move(task)) {}
  cleave_status poll() override { return runtime_->poll(*task_); }
  cleave_status wait_host() override { return runtime_->wait(*task_); }
  cleave_status wait_stream(void*) override { return wait_host(); }
  std::string error() const override { return task_->error(); }

 private:
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Task> task_;
};

/// As equal as possible; the first ones are one longer.
std::vector<int64_t> blocks(int64_t count, int ranks) {
  std::vector<int64_t> result(static_cast<size_t>(ranks), count / ranks);
  for (int64_t rank = 0; rank < count % ranks; ++rank) ++result[static_cast<size_t>(rank)];
  return result;
}

int64_t sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

cleave_dtype dtype_of(const cleave_collective& call) {
  return static_cast<cleave_dtype>(call.dtype);
}
cleave_reduction reduction_of(const cleave_collective& call) {
  return static_cast<cleave_reduction>(call.reduction);
}

}  // namespace

MpiBackend::MpiBackend(std::shared_ptr<Runtime> runtime, MPI_Comm comm, Settings settings,
                       bool root)
    : runtime_(std::move(runtime)), channel_(std::make_shared<Channel>()), root_(root) {
  channel_->comm = comm;
  channel_->settings = settings;
  runtime_->locked([&] {
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm, &channel_->rank), "MPI_Comm_rank");
    check(MPI_Comm_size(comm, &channel_->size), "MPI_Comm_size");
    void* max_tag = nullptr;
    int found = 0;
    check(MPI_Comm_get_attr(comm, MPI_TAG_UB, &max_tag, &found), "MPI_Comm_get_attr");
    channel_->max_tag = found ? *static_cast<int*>(max_tag) : kGuaranteedMaxTag;
  });
  if (root_) runtime_->add_root();
}

std::vector<int64_t> MpiBackend::counts(const int64_t* given, int64_t count) const {
  if (given) return {given, given + size()};
  return std::vector<int64_t>(static_cast<size_t>(size()), count);
}

/// Of the larger buffer.
int64_t MpiBackend::total_bytes(const cleave_collective& call) const {
  int64_t elements = call.count;
  if (call.op == CLEAVE_REDUCE_SCATTER || call.op == CLEAVE_ALL_GATHER)
    elements = sum(counts(call.recv_counts, call.count));
  if (call.op == CLEAVE_ALL_TO_ALL)
    elements = std::max(sum(counts(call.recv_counts, call.count)),
                        sum(counts(call.send_counts, call.count)));
  return call.op == CLEAVE_BARRIER ? 0 : elements * dtype_bytes(call.dtype);
}

const char* MpiBackend::algorithm(cleave_op op, cleave_dtype dtype, int64_t bytes,
                                  cleave_device) const {
  return algorithm_name(choose_algorithm(op, dtype, CLEAVE_SUM, bytes, size()));
}

std::unique_ptr<Operation> MpiBackend::submit(const cleave_collective& call) {
  const int64_t bytes = total_bytes(call);
  const bool large = bytes >= kLargeBytes;
  const bool reduces = call.op == CLEAVE_ALL_REDUCE || call.op == CLEAVE_REDUCE_SCATTER;
  auto task =
      std::make_shared<Task>(channel_, choose(call, bytes), large && reduces, call.timeout_ms);
  runtime_->submit(task, large);
  return std::make_unique<MpiOperation>(runtime_, std::move(task));
}

MpiBackend::Stages MpiBackend::choose(const cleave_collective& call, int64_t bytes) {
  Stages stages;
  if (call.op == CLEAVE_SEND || call.op == CLEAVE_RECV) {
    const bool sends = call.op == CLEAVE_SEND;
    const Transfer transfer{call.peer, call.send, sends ? bytes : 0, call.recv, sends ? 0 : bytes};
    stages.push_back(std::make_unique<Exchange>(channel_, std::vector{transfer},
                                                channel_->transfer_tag(call.tag), true));
    return stages;
  }
  const int tag = channel_->next_collective_tag();
  switch (call.op) {
    case CLEAVE_ALL_REDUCE:
      choose_all_reduce(call, bytes, tag, stages);
      break;
    case CLEAVE_REDUCE_SCATTER:
      choose_reduce_scatter(call, bytes, tag, stages);
      break;
    case CLEAVE_ALL_GATHER:
      choose_all_gather(call, bytes, tag, stages);
      break;
    case CLEAVE_ALL_TO_ALL:
      stages.push_back(all_to_all(call, tag));
      break;
    case CLEAVE_BROADCAST:
      stages.push_back(std::make_unique<Broadcast>(channel_, call.recv, bytes, call.peer, tag));
      break;
    default:
      stages.push_back(std::make_unique<Barrier>(channel_, tag));
      break;
  }
  return stages;
}

void MpiBackend::choose_all_reduce(const cleave_collective& call, int64_t bytes, int tag,
                                   Stages& stages) {
  ScratchPool& pool = runtime_->scratch();
  const Algorithm algorithm =
      choose_algorithm(CLEAVE_ALL_REDUCE, dtype_of(call), reduction_of(call), bytes, size());
  if (algorithm == Algorithm::direct) {
    stages.push_back(std::make_unique<DirectReduce>(
        channel_, pool,
        DirectCall{true, dtype_of(call), reduction_of(call), call.send, call.recv,
                   counts(nullptr, call.count), tag}));
    return;
  }
  const std::vector<int64_t> parts = blocks(call.count, size());
  if (algorithm == Algorithm::ring) {
    stages.push_back(std::make_unique<Ring>(channel_, pool,
                                            RingCall{true, true, dtype_of(call), reduction_of(call),
                                                     call.send, call.recv, parts, tag}));
    return;
  }
  const int64_t own = std::accumulate(parts.begin(), parts.begin() + rank(), int64_t{0});
  void* block = static_cast<std::byte*>(call.recv) + own * dtype_bytes(call.dtype);
  stages.push_back(std::make_unique<DirectReduce>(
      channel_, pool,
      DirectCall{false, dtype_of(call), reduction_of(call), call.send, block, parts, tag}));
  stages.push_back(std::make_unique<Ring>(
      channel_, pool,
      RingCall{false, true, dtype_of(call), reduction_of(call), block, call.recv, parts, tag}));
}

void MpiBackend::choose_reduce_scatter(const cleave_collective& call, int64_t bytes, int tag,
                                       Stages& stages) {
  std::vector<int64_t> parts = counts(call.recv_counts, call.count);
  ScratchPool& pool = runtime_->scratch();
  if (choose_algorithm(CLEAVE_REDUCE_SCATTER, dtype_of(call), reduction_of(call), bytes, size()) ==
      Algorithm::direct)
    stages.push_back(
        std::make_unique<DirectReduce>(channel_, pool,
                                       DirectCall{false, dtype_of(call), reduction_of(call),
                                                  call.send, call.recv, std::move(parts), tag}));
  else
    stages.push_back(
        std::make_unique<Ring>(channel_, pool,
                               RingCall{true, false, dtype_of(call), reduction_of(call), call.send,
                                        call.recv, std::move(parts), tag}));
}

void MpiBackend::choose_all_gather(const cleave_collective& call, int64_t bytes, int tag,
                                   Stages& stages) {
  std::vector<int64_t> parts = counts(call.recv_counts, call.count);
  if (choose_algorithm(CLEAVE_ALL_GATHER, dtype_of(call), CLEAVE_SUM, bytes, size()) ==
      Algorithm::ring) {
    stages.push_back(std::make_unique<Ring>(channel_, runtime_->scratch(),
                                            RingCall{false, true, dtype_of(call), CLEAVE_SUM,
                                                     call.send, call.recv, std::move(parts), tag}));
    return;
  }
  std::vector<Transfer> transfers;
  const int64_t own_bytes = parts[static_cast<size_t>(rank())] * dtype_bytes(call.dtype);
  auto* target = static_cast<std::byte*>(call.recv);
  for (int peer = 0; peer < size(); ++peer) {
    const int64_t peer_bytes = parts[static_cast<size_t>(peer)] * dtype_bytes(call.dtype);
    transfers.push_back({peer, call.send, own_bytes, target, peer_bytes});
    target += peer_bytes;
  }
  stages.push_back(std::make_unique<Exchange>(channel_, std::move(transfers), tag));
}

std::unique_ptr<Machine> MpiBackend::all_to_all(const cleave_collective& call, int tag) const {
  const std::vector<int64_t> outgoing = counts(call.send_counts, call.count);
  const std::vector<int64_t> incoming = counts(call.recv_counts, call.count);
  const int64_t element_bytes = dtype_bytes(call.dtype);
  std::vector<Transfer> transfers;
  const auto* source = static_cast<const std::byte*>(call.send);
  auto* target = static_cast<std::byte*>(call.recv);
  for (size_t peer = 0; peer < outgoing.size(); ++peer) {
    const int64_t send_bytes = outgoing[peer] * element_bytes;
    const int64_t recv_bytes = incoming[peer] * element_bytes;
    transfers.push_back({static_cast<int>(peer), source, send_bytes, target, recv_bytes});
    source += send_bytes;
    target += recv_bytes;
  }
  // Starting behind itself, so that the ranks do not all send to rank 0 first.
  std::rotate(transfers.begin(), transfers.begin() + rank(), transfers.end());
  return std::make_unique<Exchange>(channel_, std::move(transfers), tag);
}

std::unique_ptr<Backend> MpiBackend::split(int color, int key) {
  const int32_t choice[] = {color, key};
  std::vector<int32_t> choices(2 * static_cast<size_t>(size()));
  cleave_collective meeting{};
  meeting.struct_size = sizeof meeting;
  meeting.op = CLEAVE_ALL_GATHER;
  meeting.dtype = CLEAVE_INT32;
  meeting.send = choice;
  meeting.recv = choices.data();
  meeting.count = 2;
  const auto operation = submit(meeting);
  if (operation->wait_host() != CLEAVE_OK)
    throw RuntimeError(message("split: ", operation->error()));

  MPI_Comm child = MPI_COMM_NULL;
  runtime_->locked([&] {
    check(MPI_Comm_split(channel_->comm, color < 0 ? MPI_UNDEFINED : color, key, &child),
          "MPI_Comm_split");
  });
  if (child == MPI_COMM_NULL) return nullptr;
  return std::make_unique<MpiBackend>(runtime_, child, channel_->settings, false);
}

void* MpiBackend::allocate(uint64_t bytes, cleave_device) {
  const uint64_t rounded = (std::max<uint64_t>(bytes, 1) + kAlignment - 1) & ~(kAlignment - 1);
  return std::aligned_alloc(kAlignment, rounded);
}

void MpiBackend::deallocate(void* memory, uint64_t, cleave_device) {
  std::free(memory);
}

void MpiBackend::finalize() {
  runtime_->drain(*channel_);
  if (root_) runtime_->remove_root();
}

}  // namespace cleave::mpi
