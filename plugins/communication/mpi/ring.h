// Ring reduce-scatter, ring all-gather and both in one, in segments so that receiving, reducing and
// sending overlap. S bytes over n ranks: each phase sends (n-1)/n S per rank, always to the next
// rank, so a line between two machines carries every byte once when neighbours in rank share a
// machine.
//
// Hop h of a rank r sends block r-1-h and receives block r-2-h (mod n). Hops 0..n-2 reduce: what
// arrives is added to the rank's own data and travels on, so block b is summed in the order
// b+1, b+2, ..., b. Hops n-1..2n-3 gather: what arrives is final.
// Segments move in groups of kGroup per block: a group passes all hops before the next one starts,
// which bounds the scratch memory and keeps a segment in the cache from hop to hop.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

#include "group.h"
#include "scratch.h"
#include "task.h"

namespace cleave::mpi {

/// Blocks by place in the group.
struct RingCall {
  bool reduces;
  bool gathers;
  cleave_dtype dtype;
  cleave_reduction reduction;
  const void* send;  // reduces: all blocks; else this rank's block
  void* recv;        // gathers: all blocks; else this rank's block
  std::vector<int64_t> counts;
  std::vector<int64_t> offsets;  // elements before each block
  int tag;
  std::shared_ptr<Scratch> keeps;  // where `send` is, unless it is the caller's
};

/// A message of the ring; messages of one direction are ordered by these.
struct RingStep {
  int64_t group;
  int hop;
  int64_t segment;
  auto operator<=>(const RingStep&) const = default;
};

class Ring final : public Machine {
 public:
  /// At least 2 ranks. 16-bit floats would be rounded once for each hop: see DirectReduce.
  Ring(std::shared_ptr<Channel> channel, const Group& group, RingCall call);
  bool advance() override;
  bool finished() const override;
  std::vector<int> waits_for() const override;
  void cancel() noexcept override;
  bool drained() noexcept override;

 private:
  static constexpr int64_t kGroup = 4;
  static constexpr int kWindow = 8;
  static constexpr int kSlots = 8;  // more than kGroup, else the ring can lock up

  /// First in, first out, of scratch slots.
  class Slots {
   public:
    void push(int slot) { slots_[pushed_++ % kSlots] = slot; }
    int pop() { return slots_[popped_++ % kSlots]; }
    bool empty() const { return pushed_ == popped_; }

   private:
    std::array<int, kSlots> slots_{};
    uint64_t pushed_ = 0;
    uint64_t popped_ = 0;
  };

  int sent_block(int hop) const;
  int received_block(int hop) const;
  bool is_reducing(int hop) const { return hop < last_reduction_ + 1; }
  /// A message that is reduced and sent on from its slot.
  bool passes_on(int hop) const { return hop < last_reduction_; }
  RingStep first(bool sending) const;
  void settle(RingStep& step, bool sending) const;
  void next(RingStep& step, bool sending) const;
  bool at_end(const RingStep& step) const { return step.group >= groups_; }
  int64_t elements(int block, int64_t segment) const;
  int64_t byte_offset(int block, int64_t segment) const;
  std::byte* slot(int index) const { return scratch_.data() + index * segment_bytes_; }

  void absorb();
  bool may_receive() const;
  void post_receive();
  bool may_send() const;
  void post_send();
  const void* outgoing(int block);

  std::shared_ptr<Channel> channel_;
  RingCall call_;
  int rank_;  // in the group
  int size_;
  int left_;  // in the channel
  int right_;
  int first_hop_;
  int end_hop_;
  int last_reduction_;  // -1 when nothing is reduced
  int64_t element_bytes_;
  int64_t segment_elements_;
  int64_t segment_bytes_;
  std::vector<int64_t> segments_;  // of each block
  int64_t groups_ = 0;

  Scratch scratch_;
  Slots free_;
  Slots receiving_;
  Slots reduced_;
  Slots sending_;
  Window receives_;
  Window sends_;
  RingStep next_receive_;
  RingStep next_absorb_;
  RingStep next_send_;
  RingStep next_sent_;
};

}  // namespace cleave::mpi
