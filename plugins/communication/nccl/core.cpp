#include "core.h"

#include <algorithm>
#include <utility>

#include "cleave/backend.h"
#include "cleave/error.h"
#include "issue.h"

namespace cleave::nccl {
namespace {

constexpr auto kWatchInterval = std::chrono::milliseconds(50);
// A thread inside NCCL may hang on a dead peer until the abort that waits for it.
constexpr auto kPatience = std::chrono::milliseconds(500);
constexpr int64_t kFinalizeTimeoutMs = 60'000;

// Not owned when the time is over.
std::unique_lock<std::mutex> lock_within(std::mutex& mutex, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::unique_lock lock(mutex, std::try_to_lock);
  for (Backoff backoff; !lock && std::chrono::steady_clock::now() < end; backoff.pause())
    lock.try_lock();
  return lock;
}

std::string text_of(ncclResult_t result, ncclComm_t comm) {
  const char* last = ncclGetLastError(comm);
  const std::string text = ncclGetErrorString(result);
  return last && *last ? text + ": " + last : text;
}

}  // namespace

void Backoff::pause() {
  constexpr int kYields = 64, kLongest = 10;
  if (count_ < kYields)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(
        std::chrono::microseconds(1 << std::min(count_ - kYields, kLongest)));
  ++count_;
}

Core::Core(int device) : device_(device), watch_([this] { run_watch(); }) {}

Core::~Core() {
  close();
}

Link& Core::add_link() {
  const std::lock_guard lock(calls_);
  links_.push_back(std::make_unique<Link>());
  return *links_.back();
}

void Core::open(Link& link, const Make& make, const GivesUp& gives_up, const char* what,
                Core* parent) {
  Core& caller = parent ? *parent : *this;
  const Link& progress = parent ? *parent->links_.front() : link;
  {
    const std::lock_guard lock(caller.calls_);
    if (caller.failure_.is_set()) caller.failure_.raise();
    const ncclResult_t result = make(&link.comm);
    if (result != ncclSuccess && result != ncclInProgress)
      caller.fail(CLEAVE_FAILED, message(what, ": ", text_of(result, progress.comm)));
  }
  if (!caller.settle(progress, gives_up)) caller.failure_.raise();
  if (!parent || !link.comm || settle(link, gives_up)) return;
  if (!failure_.is_set()) fail(caller.failure_.status(), caller.failure_.text());
  failure_.raise();
}

void Core::read_rank(Link& link) {
  const std::lock_guard lock(calls_);
  if (failure_.is_set()) failure_.raise();
  ncclResult_t result = ncclCommUserRank(link.comm, &link.rank);
  if (result == ncclSuccess) result = ncclCommCount(link.comm, &link.size);
  if (result != ncclSuccess)
    throw RuntimeError(message("rank and size: ", text_of(result, link.comm)));
}

Core::GivesUp Core::time_limit(int64_t timeout_ms, const char* what) {
  return [this, deadline = Deadline(timeout_ms), what] {
    if (deadline.has_passed())
      fail(CLEAVE_TIMED_OUT, message(what, " was not done within ", deadline.timeout_ms,
                                     " ms; look for a rank that ended, for a network interface "
                                     "that its peers can't reach (socket_interface), or for GPUs "
                                     "whose PCIe path hangs (NCCL_P2P_DISABLE=1)"));
    return failure_.is_set();
  };
}

bool Core::settle(const Link& link, const GivesUp& gives_up) {
  Backoff backoff;
  for (;; backoff.pause()) {
    ncclResult_t state = ncclSuccess;
    {
      const std::lock_guard lock(calls_);
      if (failure_.is_set()) return false;
      const ncclResult_t asked = ncclCommGetAsyncError(link.comm, &state);
      if (asked != ncclSuccess) state = asked;
      if (state != ncclSuccess && state != ncclInProgress)
        fail(CLEAVE_FAILED, text_of(state, link.comm));
    }
    if (state == ncclSuccess) return true;
    if (gives_up()) return false;
  }
}

void Core::issue_all(const std::vector<Task>& tasks) {
  for (const Task& task : tasks)
    if (task.job->inputs) task.job->inputs.hold_back(task.link->stream.get());
  const std::lock_guard lock(calls_);
  if (failure_.is_set()) return;
  const bool is_group = tasks.size() > 1;
  ncclResult_t result = is_group ? ncclGroupStart() : ncclSuccess;
  const char* failed = "ncclGroupStart";
  for (const Task& task : tasks) {
    if (result != ncclSuccess && result != ncclInProgress) break;
    Link& link = *task.link;
    failed = op_name(task.job->call().op);
    result = issue(task.job->call(), link.rank, link.size, link.comm, link.stream.get());
  }
  if (is_group) {
    const ncclResult_t end = ncclGroupEnd();
    if (result == ncclSuccess || result == ncclInProgress) result = end;
  }
  if (result != ncclSuccess && result != ncclInProgress)
    fail(CLEAVE_FAILED, message(failed, ": ", text_of(result, tasks.front().link->comm)));
}

void Core::enqueue(const std::vector<Task>& tasks) noexcept {
  try {
    const DeviceGuard guard(device_);
    issue_all(tasks);
    for (const Task& task : tasks) {
      Job& job = *task.job;
      if (!settle(*task.link, [&] { return poll(job) != CLEAVE_PENDING; })) return;
      job.done = new_event();
      job.done.record(task.link->stream.get());
      job.is_enqueued.store(true, std::memory_order_release);
    }
  } catch (const std::exception& error) {
    fail(CLEAVE_FAILED, error.what());
  }
}

void Core::watch(const std::shared_ptr<Job>& job) {
  {
    const std::lock_guard lock(mutex_);
    open_.push_back(job);
  }
  changed_.notify_all();
}

// An aborted kernel ends too, so the reason is looked at after the event: it was set before.
cleave_status Core::poll(Job& job) noexcept {
  if (job.status() != CLEAVE_PENDING) return job.status();
  bool is_done = false;
  try {
    is_done = job.is_enqueued.load(std::memory_order_acquire) && job.done.has_happened();
  } catch (const std::exception& error) {
    fail(CLEAVE_FAILED, error.what());
  }
  if (failure_.is_set())
    job.settle(failure_.status() == CLEAVE_TIMED_OUT ? CLEAVE_ABORTED : failure_.status());
  else if (is_done)
    job.settle(CLEAVE_OK);
  else if (job.deadline().has_passed() && job.settle(CLEAVE_TIMED_OUT))
    fail(CLEAVE_ABORTED, "the communicator was aborted: " + job.timeout_text());
  return job.status();
}

cleave_status Core::wait_host(Job& job) noexcept {
  for (Backoff backoff; poll(job) == CLEAVE_PENDING; backoff.pause())
    if (job.is_held) return CLEAVE_INVALID;
  return job.status();
}

cleave_status Core::wait_stream(Job& job, cudaStream_t stream) noexcept {
  for (Backoff backoff; !job.is_enqueued.load(std::memory_order_acquire); backoff.pause()) {
    if (job.is_held) return CLEAVE_INVALID;
    const cleave_status status = poll(job);
    if (status != CLEAVE_PENDING) return status;
  }
  const cleave_status status = poll(job);
  if (status != CLEAVE_PENDING && status != CLEAVE_OK) return status;
  try {
    const DeviceGuard guard(device_);
    job.done.hold_back(stream);
  } catch (const std::exception& error) {
    fail(CLEAVE_FAILED, error.what());
    return CLEAVE_FAILED;
  }
  return CLEAVE_OK;
}

std::vector<std::shared_ptr<Job>> Core::open_jobs() {
  const std::lock_guard lock(mutex_);
  std::erase_if(open_, [](const auto& job) { return job->status() != CLEAVE_PENDING; });
  return open_;
}

void Core::drain(Which which) {
  for (const auto& job : open_jobs()) {
    const int32_t op = job->call().op;
    if (which == Which::collectives && (op == CLEAVE_SEND || op == CLEAVE_RECV)) continue;
    const cleave_status status = wait_host(*job);
    if (status == CLEAVE_OK) continue;
    if (status == CLEAVE_INVALID) throw RuntimeError("a group is still open; call group_end first");
    throw RuntimeError(status == CLEAVE_TIMED_OUT ? job->timeout_text() : failure_.text());
  }
}

void Core::fail(cleave_status status, const std::string& text) noexcept {
  {
    const std::lock_guard lock(mutex_);
    failure_.set(status, text);
  }
  changed_.notify_all();
}

// False when there is nothing to watch any more.
bool Core::sleep_until_needed() {
  std::unique_lock lock(mutex_);
  const auto is_over = [&] { return is_closing_ || failure_.is_set(); };
  changed_.wait(lock, [&] { return is_over() || !open_.empty(); });
  return !changed_.wait_for(lock, kWatchInterval, is_over);
}

void Core::check_async_errors() {
  const std::unique_lock lock = lock_within(calls_, kWatchInterval);
  if (!lock || failure_.is_set()) return;
  for (const auto& link : links_) {
    ncclResult_t state = ncclSuccess;
    if (link->comm) ncclCommGetAsyncError(link->comm, &state);
    if (state != ncclSuccess && state != ncclInProgress)
      return fail(CLEAVE_FAILED, "NCCL reports: " + text_of(state, link->comm));
  }
}

void Core::run_watch() noexcept {
  cudaSetDevice(device_);
  while (sleep_until_needed()) {
    for (const auto& job : open_jobs()) poll(*job);
    check_async_errors();
  }
  if (failure_.is_set()) abort_links();
}

void Core::abort_links() noexcept {
  std::vector<ncclComm_t> comms;
  {
    // not held while aborting: that may take long, and no other thread calls NCCL after a failure
    const std::unique_lock lock = lock_within(calls_, kPatience);
    for (const auto& link : links_)
      if (link->comm) comms.push_back(std::exchange(link->comm, nullptr));
  }
  for (const ncclComm_t comm : comms) ncclCommAbort(comm);
}

void Core::finalize() {
  drain(Which::all);
  const GivesUp gives_up = time_limit(kFinalizeTimeoutMs, "finalize");
  for (const auto& link : links_) {
    {
      const std::lock_guard lock(calls_);
      if (failure_.is_set()) failure_.raise();
      if (!link->comm) continue;
      const ncclResult_t result = ncclCommFinalize(link->comm);
      if (result != ncclSuccess && result != ncclInProgress)
        fail(CLEAVE_FAILED, "ncclCommFinalize: " + text_of(result, link->comm));
    }
    if (!settle(*link, gives_up)) failure_.raise();
  }
  is_finalized_ = true;
}

void Core::close() noexcept {
  if (!is_finalized_) fail(CLEAVE_ABORTED, "the communicator was destroyed");
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  if (watch_.joinable()) watch_.join();
  for (const auto& link : links_)
    if (link->comm) ncclCommDestroy(std::exchange(link->comm, nullptr));
  fail(CLEAVE_ABORTED, "the communicator was destroyed");
}

}  // namespace cleave::nccl
