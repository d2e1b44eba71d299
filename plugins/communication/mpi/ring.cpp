#include "ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cleave/backend.h"
#include "cleave/error.h"
#include "cleave/reduce.h"

namespace cleave::mpi {
namespace {

// A block shorter than kPipeline full segments is cut finer, so that its parts overlap too; below
// kMinSegmentBytes a message costs more than the overlap gains.
constexpr int64_t kPipeline = 8;
constexpr int64_t kMinSegmentBytes = 32 * 1024;

int64_t segment_elements(const std::vector<int64_t>& counts, int64_t element_bytes,
                         int64_t segment_bytes) {
  const int64_t largest = *std::max_element(counts.begin(), counts.end()) * element_bytes;
  const int64_t floor = std::min(kMinSegmentBytes, segment_bytes);
  const int64_t bytes = std::clamp(largest / kPipeline, floor, segment_bytes);
  return std::max<int64_t>(1, bytes / element_bytes);
}

}  // namespace

Ring::Ring(std::shared_ptr<Channel> channel, const Group& group, RingCall call)
    : channel_(std::move(channel)),
      call_(std::move(call)),
      rank_(group.rank),
      size_(group.size()),
      left_(group.at((rank_ + size_ - 1) % size_)),
      right_(group.at((rank_ + 1) % size_)),
      first_hop_(call_.reduces ? 0 : size_ - 1),
      end_hop_(call_.gathers ? 2 * size_ - 2 : size_ - 1),
      last_reduction_(call_.reduces ? size_ - 2 : -1),
      element_bytes_(dtype_bytes(call_.dtype)),
      segment_elements_(
          segment_elements(call_.counts, element_bytes_, channel_->settings.segment_bytes)),
      segment_bytes_(segment_elements_ * element_bytes_),
      receives_(kWindow),
      sends_(kWindow) {
  for (const int64_t count : call_.counts) {
    segments_.push_back((count + segment_elements_ - 1) / segment_elements_);
    groups_ = std::max(groups_, (segments_.back() + kGroup - 1) / kGroup);
  }
  for (int index = 0; index < kSlots; ++index) free_.push(index);
  next_receive_ = next_absorb_ = first(false);
  next_send_ = next_sent_ = first(true);
}

int Ring::sent_block(int hop) const {
  return (rank_ - 1 - hop + 2 * size_) % size_;
}

int Ring::received_block(int hop) const {
  return (rank_ - 2 - hop + 2 * size_) % size_;
}

RingStep Ring::first(bool sending) const {
  RingStep step{0, first_hop_, 0};
  settle(step, sending);
  return step;
}

/// Moves on to the first message that exists: blocks differ in length and may be empty.
void Ring::settle(RingStep& step, bool sending) const {
  while (!at_end(step)) {
    const int block = sending ? sent_block(step.hop) : received_block(step.hop);
    const int64_t end = std::min((step.group + 1) * kGroup, segments_[static_cast<size_t>(block)]);
    if (step.segment < end) return;
    if (++step.hop == end_hop_) {
      step.hop = first_hop_;
      ++step.group;
    }
    step.segment = step.group * kGroup;
  }
}

void Ring::next(RingStep& step, bool sending) const {
  ++step.segment;
  settle(step, sending);
}

int64_t Ring::elements(int block, int64_t segment) const {
  return std::min(segment_elements_,
                  call_.counts[static_cast<size_t>(block)] - segment * segment_elements_);
}

int64_t Ring::byte_offset(int block, int64_t segment) const {
  return (call_.offsets[static_cast<size_t>(block)] + segment * segment_elements_) * element_bytes_;
}

void Ring::absorb() {
  const RingStep step = next_absorb_;
  next(next_absorb_, false);
  if (!is_reducing(step.hop)) return;
  const int block = received_block(step.hop);
  const int index = receiving_.pop();
  const void* sources[] = {
      slot(index), static_cast<const std::byte*>(call_.send) + byte_offset(block, step.segment)};
  void* target = slot(index);
  if (passes_on(step.hop)) {
    reduced_.push(index);
  } else {
    const int64_t offset =
        call_.gathers ? byte_offset(block, step.segment) : step.segment * segment_bytes_;
    target = static_cast<std::byte*>(call_.recv) + offset;
    free_.push(index);
  }
  reduce_buffers(call_.dtype, call_.reduction, sources, 2, &target, 1,
                 elements(block, step.segment));
}

bool Ring::may_receive() const {
  if (at_end(next_receive_) || receives_.full()) return false;
  const RingStep& step = next_receive_;
  if (is_reducing(step.hop)) return !free_.empty();
  if (!call_.reduces) return true;
  // In place, the segment is the rank's own data until that was sent (first hop) or added.
  const int gather_hop = step.hop - (last_reduction_ + 1);
  if (gather_hop == 0) return RingStep{step.group, 0, step.segment} < next_sent_;
  return RingStep{step.group, gather_hop - 1, step.segment} < next_absorb_;
}

void Ring::post_receive() {
  const RingStep step = next_receive_;
  next(next_receive_, false);
  const int block = received_block(step.hop);
  void* target = nullptr;
  if (is_reducing(step.hop)) {
    const int index = free_.pop();
    receiving_.push(index);
    target = slot(index);
  } else {
    target = static_cast<std::byte*>(call_.recv) + byte_offset(block, step.segment);
  }
  receives_.receive(*channel_, target, elements(block, step.segment) * element_bytes_, left_,
                    call_.tag, call_.dtype);
}

bool Ring::may_send() const {
  if (at_end(next_send_) || sends_.full()) return false;
  const RingStep& step = next_send_;
  return step.hop == first_hop_ || RingStep{step.group, step.hop - 1, step.segment} < next_absorb_;
}

const void* Ring::outgoing(int block) {
  const RingStep& step = next_send_;
  const auto* send = static_cast<const std::byte*>(call_.send);
  auto* recv = static_cast<std::byte*>(call_.recv);
  if (step.hop == first_hop_ && call_.reduces) return send + byte_offset(block, step.segment);
  if (step.hop <= last_reduction_) {
    const int index = reduced_.pop();
    sending_.push(index);
    return slot(index);
  }
  std::byte* final_block = recv + byte_offset(block, step.segment);
  if (step.hop == first_hop_) {  // gather only: the rank's own block is copied on its way out
    const std::byte* own = send + step.segment * segment_bytes_;
    if (own != final_block)
      std::memcpy(final_block, own,
                  static_cast<size_t>(elements(block, step.segment) * element_bytes_));
  }
  return final_block;
}

void Ring::post_send() {
  const int block = sent_block(next_send_.hop);
  const int64_t bytes = elements(block, next_send_.segment) * element_bytes_;
  const void* data = outgoing(block);
  next(next_send_, true);
  sends_.send(*channel_, data, bytes, right_, call_.tag, call_.dtype);
}

bool Ring::advance() {
  if (call_.reduces && !scratch_) scratch_ = channel_->scratch->take(kSlots * segment_bytes_);
  bool moved = false;
  while (sends_.pop()) {
    if (next_sent_.hop > first_hop_ && next_sent_.hop <= last_reduction_)
      free_.push(sending_.pop());
    next(next_sent_, true);
    moved = true;
  }
  while (receives_.pop()) {
    absorb();
    moved = true;
    while (may_send()) post_send();
    while (may_receive()) post_receive();
  }
  while (may_receive()) {
    post_receive();
    moved = true;
  }
  while (may_send()) {
    post_send();
    moved = true;
  }
  return moved;
}

bool Ring::finished() const {
  return at_end(next_absorb_) && at_end(next_sent_);
}

std::vector<int> Ring::waits_for() const {
  return {receives_.empty() ? right_ : left_};
}

void Ring::cancel() noexcept {
  receives_.cancel();
  sends_.cancel();
}

bool Ring::drained() noexcept {
  return receives_.drained() && sends_.drained();
}

}  // namespace cleave::mpi
