// Inside of Comm and Work: what outlives a Comm, and the life of one operation.
#pragma once

#include <c10/core/Stream.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cleave/comm.h"
#include "cleave/error.h"

namespace cleave {

using Clock = std::chrono::steady_clock;

/// The current stream of the tensor's device.
c10::Stream current_stream(const at::Tensor& tensor);

struct Work::State {
  State(std::shared_ptr<detail::CommCore> owner, const cleave_collective& call,
        at::Tensor send_tensor, at::Tensor recv_tensor);
  ~State();
  /// Polls; true when done. Throws when it failed.
  bool poll();
  /// Books a final status: trace, or failure text and exception.
  void settle(int32_t status);
  void wait(bool on_host);

  // Null while the core itself keeps this state (detached).
  std::shared_ptr<detail::CommCore> core;
  detail::CommCore* borrowed_core;
  cleave_work* work = nullptr;
  at::Tensor send;
  at::Tensor recv;
  int32_t op;
  int64_t sequence;
  int64_t bytes;
  Clock::time_point submitted;
  bool done = false;
  std::string failure;
};

namespace detail {

struct CommCore {
  CommCore(cleave_communicator* owned, std::string group_name, CommStats* group_stats,
           int64_t group_timeout_ms);
  ~CommCore();
  CommCore(const CommCore&) = delete;
  CommCore& operator=(const CommCore&) = delete;

  std::string where() const;
  void detach(std::unique_ptr<Work::State> state) noexcept;
  /// Frees detached works that are done; throws when one failed.
  void reap();
  void wait_for_detached();
  [[noreturn]] void fail(const std::string& what) const {
    throw RuntimeError(message(where(), ": ", what));
  }

  cleave_communicator* communicator;
  const cleave_communicator_api* api;
  std::string name;
  CommStats* stats;
  int64_t timeout_ms;
  int rank;
  int size;
  int64_t sequence = 0;
  bool is_finalized = false;
  cleave_capabilities capabilities{};
  CommTrace trace;
  std::vector<std::unique_ptr<Work::State>> detached;
  // A failed operation may still use its buffers until the communicator is destroyed.
  std::vector<at::Tensor> unsafe_to_free;
};

}  // namespace detail

}  // namespace cleave
