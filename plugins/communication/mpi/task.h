// An operation as the runtime sees it: stages, each a small state machine over MPI requests.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "channel.h"
#include "cleave/communicator.h"

namespace cleave::mpi {

/// One algorithm. It starts what can be started and never blocks. Runs under the runtime's lock.
class Machine {
 public:
  virtual ~Machine() = default;
  /// Tests requests, reduces, starts the next ones; true when anything moved. May throw.
  virtual bool advance() = 0;
  virtual bool finished() const = 0;
  /// Ranks of the channel, for the text of a timeout; none: the GPU.
  virtual std::vector<int> waits_for() const = 0;
  virtual void cancel() noexcept = 0;
  virtual bool drained() noexcept = 0;
};

using Stages = std::vector<std::unique_ptr<Machine>>;

/// Status is readable from any thread; everything else runs under the runtime's lock.
class Task {
 public:
  /// Starts at once.
  Task(std::shared_ptr<Channel> channel, Stages stages, int64_t timeout_ms);
  /// A heavy one: it takes much scratch memory, or lanes of the mailbox. A channel runs only few of
  /// these at a time, in the order of submission, which is the same on all ranks; `make` is called
  /// when its turn comes.
  Task(std::shared_ptr<Channel> channel, std::function<Stages()> make, int64_t timeout_ms);
  /// One step forward; true when anything moved.
  bool pass();
  cleave_status status() const {
    return static_cast<cleave_status>(status_.load(std::memory_order_acquire));
  }
  const std::string& error() const { return error_; }
  const Channel& channel() const { return *channel_; }
  /// After a failure: whether MPI has let go of all buffers.
  bool drained() noexcept;

 private:
  void step();
  std::string missing() const;
  void end(cleave_status status);
  void fail(cleave_status status, std::string error);

  std::shared_ptr<Channel> channel_;
  std::function<Stages()> make_;  // heavy ones
  Stages stages_;
  size_t stage_ = 0;
  bool started_ = false;
  bool moved_ = false;
  int64_t timeout_ms_;
  std::chrono::steady_clock::time_point deadline_;
  std::string error_;
  std::atomic<int> status_{CLEAVE_PENDING};
};

}  // namespace cleave::mpi
