#include "channel.h"

#include <utility>

#include "cleave/backend.h"
#include "cleave/error.h"
#include "nccl_config.h"

namespace cleave::nccl {
namespace {

// The host's store serves one call at a time: a longer wait would hold up the rank's other ones.
constexpr int64_t kStoreWaitMs = 1;
constexpr int kSender = 0;
constexpr int kReceiver = 1;

}  // namespace

Channel::Channel(Core& core, const cleave_bootstrap& bootstrap, std::string key, bool sends)
    : core_(core),
      bootstrap_(bootstrap),
      key_(std::move(key)),
      sends_(sends),
      link_(core.add_link()) {
  link_.rank = sends ? kSender : kReceiver;
  link_.size = 2;
}

Channel::~Channel() {
  if (maker_.joinable()) maker_.join();
}

Link* Channel::accept(const std::shared_ptr<Job>& job) {
  const std::lock_guard lock(mutex_);
  if (stands_) return &link_;
  waiting_.push_back(job);
  if (!maker_.joinable()) maker_ = std::thread([this, job] { make(job); });
  return nullptr;
}

bool Channel::find_id(const Job& first, ncclUniqueId& id) {
  if (sends_) {
    if (ncclGetUniqueId(&id) != ncclSuccess)
      throw RuntimeError(message("ncclGetUniqueId: ", ncclGetLastError(nullptr)));
    if (bootstrap_.set(bootstrap_.context, key_.c_str(), &id, sizeof id) != CLEAVE_OK)
      throw RuntimeError("the host's key-value store does not answer");
    return true;
  }
  uint64_t bytes = 0;
  for (Backoff backoff; !core_.failure().is_set() && first.status() == CLEAVE_PENDING;
       backoff.pause()) {
    const int32_t status =
        bootstrap_.get(bootstrap_.context, key_.c_str(), &id, sizeof id, &bytes, kStoreWaitMs);
    if (status == CLEAVE_OK) return true;
    if (status != CLEAVE_TIMED_OUT)
      throw RuntimeError("the host's key-value store does not answer");
  }
  return false;
}

void Channel::make(const std::shared_ptr<Job>& first) noexcept {
  try {
    const DeviceGuard guard(core_.device());
    ncclUniqueId id;
    if (!find_id(*first, id)) return;
    ncclConfig_t config = non_blocking();
    core_.open(
        link_,
        [&](ncclComm_t* comm) {
          return ncclCommInitRankConfig(comm, link_.size, id, link_.rank, &config);
        },
        [&] { return core_.poll(*first) != CLEAVE_PENDING; }, "channel");
    enqueue_waiting();
  } catch (const std::exception& error) {
    core_.fail(CLEAVE_FAILED, message("channel ", key_, ": ", error.what()));
  }
}

// The first operation connects the two sides, for which it may wait inside NCCL.
void Channel::enqueue_waiting() {
  for (;;) {
    std::shared_ptr<Job> job;
    {
      const std::lock_guard lock(mutex_);
      stands_ = waiting_.empty();
      if (stands_) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    core_.enqueue({{job, &link_}});
  }
}

void Loopback::accept(const std::shared_ptr<Job>& job) {
  (job->call().op == CLEAVE_SEND ? sends_ : receives_).push_back(job);
  while (!sends_.empty() && !receives_.empty()) {
    copy(*sends_.front(), *receives_.front());
    sends_.pop_front();
    receives_.pop_front();
  }
}

void Loopback::copy(Job& send, Job& recv) {
  const cleave_collective &from = send.call(), &to = recv.call();
  if (from.count != to.count || from.dtype != to.dtype)
    return core_.fail(CLEAVE_FAILED, message("send of ", from.count, " ", dtype_name(from.dtype),
                                             " to the own rank meets a recv of ", to.count, " ",
                                             dtype_name(to.dtype)));
  for (Job* job : {&send, &recv}) job->inputs.hold_back(stream_.get());
  check(
      cudaMemcpyAsync(to.recv, from.send, static_cast<size_t>(from.count * dtype_bytes(from.dtype)),
                      cudaMemcpyDeviceToDevice, stream_.get()),
      "cudaMemcpyAsync");
  for (Job* job : {&send, &recv}) {
    job->done = core_.new_event();
    job->done.record(stream_.get());
    job->is_enqueued.store(true, std::memory_order_release);
  }
}

}  // namespace cleave::nccl
