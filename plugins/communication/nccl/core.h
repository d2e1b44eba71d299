// What a rank's operations, the thread that watches them and the threads that make channels share:
// NCCL's communicators, the reason why they ended, and who may call NCCL.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "failure.h"
#include "job.h"

namespace cleave::nccl {

/// An NCCL communicator and the stream that orders its operations.
struct Link {
  int rank = 0;
  int size = 1;
  ncclComm_t comm = nullptr;  // under Core's call lock; null: not made yet, or gone
  Stream stream;
};

struct Task {
  std::shared_ptr<Job> job;
  Link* link;
};

class Core {
 public:
  explicit Core(int device);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  int device() const { return device_; }
  const Failure& failure() const { return failure_; }
  Event new_event() { return events_->take(); }

  /// Lives as long as this.
  Link& add_link();
  using Make = std::function<ncclResult_t(ncclComm_t*)>;
  using GivesUp = std::function<bool()>;
  /// Fills a link by a non-blocking call and waits until it is usable, or `gives_up` says so.
  /// `parent`: whose first communicator carries the call's progress (a split), else the new one
  /// does. RuntimeError, after which this core or its parent has failed.
  void open(Link& link, const Make& make, const GivesUp& gives_up, const char* what,
            Core* parent = nullptr);
  /// As NCCL numbers them.
  void read_rank(Link& link);
  /// Ends this core when the time is over. It outlives the result.
  GivesUp time_limit(int64_t timeout_ms, const char* what);

  /// Puts operations on their links' streams, several as one NCCL group. Failures end this core.
  void enqueue(const std::vector<Task>& tasks) noexcept;
  /// From submit on, also before it is enqueued.
  void watch(const std::shared_ptr<Job>& job);
  cleave_status poll(Job& job) noexcept;
  cleave_status wait_host(Job& job) noexcept;
  /// Makes `stream` wait; blocks only while the job is not enqueued yet.
  cleave_status wait_stream(Job& job, cudaStream_t stream) noexcept;
  enum class Which { all, collectives };
  /// Waits on the host for what was submitted. RuntimeError when something failed.
  void drain(Which which);

  /// Any thread; never blocks: the watch thread aborts NCCL's communicators.
  void fail(cleave_status status, const std::string& text) noexcept;
  /// Collective: drains, then says farewell. RuntimeError.
  void finalize();
  bool is_finalized() const { return is_finalized_; }
  /// Local: destroys what finalize() ended, aborts what it did not. Nobody calls NCCL any more.
  void close() noexcept;

 private:
  void run_watch() noexcept;
  bool sleep_until_needed();
  void abort_links() noexcept;
  void issue_all(const std::vector<Task>& tasks);
  /// False after a failure, or when `gives_up` says so.
  bool settle(const Link& link, const GivesUp& gives_up);
  void check_async_errors();
  std::vector<std::shared_ptr<Job>> open_jobs();

  const int device_;
  const std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
  Failure failure_;
  std::mutex calls_;  // NCCL is called by one thread at a time
  std::vector<std::unique_ptr<Link>> links_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Job>> open_;  // a released work's too
  bool is_closing_ = false;
  bool is_finalized_ = false;
  std::thread watch_;
};

/// Waits a little longer each time, a millisecond at most.
class Backoff {
 public:
  void pause();

 private:
  int count_ = 0;
};

}  // namespace cleave::nccl
