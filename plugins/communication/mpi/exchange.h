// The operations that only move bytes.
//   Exchange   all messages at once: send, recv, all_to_all, small all_gather
//   Broadcast  along the chain root, root+1, ...: each rank sends S once, in segments
//   Barrier    dissemination: ceil(log2 n) rounds of empty messages
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "task.h"

namespace cleave::mpi {

struct Transfer {
  int peer;
  const void* send;
  int64_t send_bytes;
  void* recv;
  int64_t recv_bytes;
};

class Exchange final : public Machine {
 public:
  /// A transfer with the rank itself is a copy of send_bytes, unless `wire` (send and recv to
  /// itself are two calls that meet in MPI).
  Exchange(std::shared_ptr<Channel> channel, std::vector<Transfer> transfers, int tag,
           bool wire = false);
  bool advance() override;
  bool finished() const override { return started_ && requests_.empty(); }
  std::vector<int> waits_for() const override;
  void cancel() noexcept override { requests_.cancel(); }
  bool drained() noexcept override { return requests_.drained(); }

 private:
  void start();

  std::shared_ptr<Channel> channel_;
  std::vector<Transfer> transfers_;
  int tag_;
  bool started_ = false;
  Window requests_;
};

class Broadcast final : public Machine {
 public:
  Broadcast(std::shared_ptr<Channel> channel, void* data, int64_t bytes, int root, int tag);
  bool advance() override;
  bool finished() const override;
  std::vector<int> waits_for() const override;
  void cancel() noexcept override;
  bool drained() noexcept override;

 private:
  static constexpr int kWindow = 4;
  void post(Window& window, int64_t& posted, bool sending);

  std::shared_ptr<Channel> channel_;
  std::byte* data_;
  int64_t bytes_;
  int64_t segment_bytes_;
  int64_t segments_;
  int tag_;
  bool receives_from_left_;
  bool sends_to_right_;
  int64_t receives_posted_ = 0;
  int64_t received_ = 0;
  int64_t sends_posted_ = 0;
  int64_t sent_ = 0;
  Window receives_{kWindow};
  Window sends_{kWindow};
};

class Barrier final : public Machine {
 public:
  Barrier(std::shared_ptr<Channel> channel, int tag);
  bool advance() override;
  bool finished() const override { return distance_ >= channel_->size && requests_.empty(); }
  std::vector<int> waits_for() const override;
  void cancel() noexcept override { requests_.cancel(); }
  bool drained() noexcept override { return requests_.drained(); }

 private:
  std::shared_ptr<Channel> channel_;
  int tag_;
  int64_t distance_ = 1;  // of the next round
  Window requests_{2};
};

}  // namespace cleave::mpi
