// An operation on its way: its arguments, its place in its stream's order, how it ended.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/communicator.h"
#include "cuda_objects.h"

namespace cleave::nccl {

struct Deadline {
  explicit Deadline(int64_t timeout)
      : timeout_ms(timeout),
        at(std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout)) {}
  bool has_passed() const { return timeout_ms > 0 && std::chrono::steady_clock::now() >= at; }

  int64_t timeout_ms;  // 0: no limit
  std::chrono::steady_clock::time_point at;
};

/// Shared by the caller's handle, the watch thread and the queue of a channel that is being made.
class Job {
 public:
  /// For a communicator of `ranks`; copies the counts.
  Job(const cleave_collective& call, int ranks);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const cleave_collective& call() const { return call_; }
  const Deadline& deadline() const { return deadline_; }
  /// CLEAVE_PENDING, then once and for all how it ended.
  cleave_status status() const { return status_.load(std::memory_order_acquire); }
  /// False when it had ended already.
  bool settle(cleave_status status) noexcept;
  /// "recv of 4 float32 from rank 2 was not done within 50 ms"
  std::string timeout_text() const;

  Event inputs;  ///< on the caller's stream; none for a barrier
  Event done;    ///< recorded before is_enqueued is set
  std::atomic<bool> is_enqueued{false};
  std::atomic<bool> is_held{false};  ///< until its group ends

 private:
  cleave_collective call_;
  std::vector<int64_t> send_counts_;  // the call's point here
  std::vector<int64_t> recv_counts_;
  Deadline deadline_;
  std::atomic<cleave_status> status_{CLEAVE_PENDING};
};

}  // namespace cleave::nccl
