// Operations on GPU memory by way of the host: in chunks through two pinned buffers, so that one
// chunk is copied while the other is on the network.
//
// A chunk of an operation is the same operation on a part of each block, done by the algorithms for
// host memory. Shared memory is not used: chunks begin when their copy is done, in another order on
// each rank, and lanes are given out in one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "algorithm.h"
#include "call.h"
#include "device.h"
#include "stages.h"
#include "task.h"

namespace cleave::mpi {

/// The caller's buffers as they are when `ready` has happened; owns the event.
struct StagedCall {
  Call call;
  int gpu;
  void* ready;
  Algorithm algorithm;
  int tag;
};

class Staged final : public Machine {
 public:
  /// `is_direct`: MPI takes GPU memory, and the operation is a send or a receive: no copies.
  Staged(std::shared_ptr<const StageMaker> stages, Device& device, StagedCall call, bool is_direct);
  ~Staged() override;
  bool advance() override;
  bool finished() const override { return finished_ == num_chunks_; }
  std::vector<int> waits_for() const override;
  void cancel() noexcept override;
  bool drained() noexcept override;

 private:
  enum class Step { idle, copying_in, ready, communicating, copying_out };
  struct Slot {
    Step step = Step::idle;
    int64_t chunk = 0;
    void* event = nullptr;
    std::byte* send = nullptr;
    std::byte* recv = nullptr;
    Stages stages = {};
    size_t stage = 0;
  };

  bool is_blocked() const { return !call_.call.counts.empty(); }
  int64_t part(int64_t count, int64_t chunk) const;
  std::vector<int64_t> parts(const std::vector<int64_t>& counts, int64_t chunk) const;
  bool reads() const;
  bool writes() const;
  void take_buffers(Slot& slot);
  Call chunk_call(const Slot& slot) const;
  void copy_in(Slot& slot);
  void copy_out(Slot& slot);
  bool pass(Slot& slot);
  bool communicate(Slot& slot);
  bool has_happened(void*& event);

  std::shared_ptr<const StageMaker> stages_;
  Device& device_;
  StagedCall call_;
  bool is_direct_;
  int rank_;
  int64_t chunk_elements_ = 1;
  int64_t num_chunks_ = 0;
  int64_t started_ = 0;       // chunks whose copy has begun
  int64_t communicated_ = 0;  // chunks whose messages are through
  int64_t finished_ = 0;
  std::array<Slot, 2> slots_;
};

}  // namespace cleave::mpi
