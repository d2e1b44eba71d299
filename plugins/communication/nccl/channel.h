// Sends and receives. NCCL has no tags and runs a communicator's operations one after the other, so
// each direction between two ranks is a communicator of two with a stream of its own: messages
// arrive in the order in which they were sent, and none waits for another pair or direction. Tags
// must agree with that order (stage_runner.h says why they do); they are not looked at.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core.h"

namespace cleave::nccl {

/// One direction to or from another rank. It is made by a thread when it is first used: both sides
/// must come for that, so waiting for it in submit could be waiting for each other.
class Channel {
 public:
  /// `key` is the same on both ranks and used by no other channel; `core` outlives this.
  Channel(Core& core, const cleave_bootstrap& bootstrap, std::string key, bool sends);
  /// After a failure of `core`, or when all of its jobs are done.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Where to enqueue the job; nullptr when this will do it, once the channel stands.
  Link* accept(const std::shared_ptr<Job>& job);

 private:
  void make(const std::shared_ptr<Job>& first) noexcept;
  /// False when the first job ended before the other side came.
  bool find_id(const Job& first, ncclUniqueId& id);
  void enqueue_waiting();

  Core& core_;
  const cleave_bootstrap bootstrap_;
  const std::string key_;
  const bool sends_;
  Link& link_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Job>> waiting_;
  bool stands_ = false;
  std::thread maker_;
};

/// From a rank to itself: a copy, once both sides are there.
class Loopback {
 public:
  explicit Loopback(Core& core) : core_(core) {}
  void accept(const std::shared_ptr<Job>& job);

 private:
  void copy(Job& send, Job& recv);

  Core& core_;
  Stream stream_;
  std::deque<std::shared_ptr<Job>> sends_;
  std::deque<std::shared_ptr<Job>> receives_;
};

}  // namespace cleave::nccl
