#include "shared_large.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "call.h"
#include "cleave/backend.h"
#include "cleave/error.h"
#include "cleave/reduce.h"
#include "stream_copy.h"

namespace cleave::mpi {
namespace {

// Between two looks at other operations.
constexpr int kStepsPerAdvance = 4;
constexpr uint64_t kAllSteps = (uint64_t{1} << kStepBits) - 1;

uint64_t value_of(uint64_t number, uint64_t steps) {
  return (number << kStepBits) + steps;
}

}  // namespace

SharedLarge::SharedLarge(std::shared_ptr<Node> node, SharedCall call)
    : node_(std::move(node)),
      call_(std::move(call)),
      reduces_(call_.op == CLEAVE_ALL_REDUCE || call_.op == CLEAVE_REDUCE_SCATTER),
      exchanges_(call_.op == CLEAVE_ALL_TO_ALL),
      gathers_(!exchanges_ && call_.op != CLEAVE_REDUCE_SCATTER),
      element_bytes_(dtype_bytes(call_.dtype)),
      result_bytes_(dtype_bytes(call_.result_dtype())),
      offsets_(offsets(call_.counts)),
      number_(node_->next_large()) {
  const int64_t shares = reduces_ || exchanges_ ? node_->size() : 1;
  const int64_t bytes = LargeLane::kInBytes / shares / kCacheLine * kCacheLine;
  chunk_elements_ = std::max<int64_t>(1, bytes / element_bytes_);
  for (const int64_t part : call_.counts)
    num_chunks_ = std::max(num_chunks_, (part + chunk_elements_ - 1) / chunk_elements_);
}

LargeLane& SharedLarge::lane(int local) const {
  return node_->mailbox(local).large[number_ % Mailbox::kLargeLanes];
}

bool SharedLarge::all_reached(Counter LargeLane::*counter, uint64_t value) const {
  for (int local = 0; local < node_->size(); ++local)
    if ((lane(local).*counter).value.load(std::memory_order_acquire) < value) return false;
  return true;
}

bool SharedLarge::has_reached(Counter LargeLane::*counter, int64_t chunks) const {
  return all_reached(counter, value_of(number_, static_cast<uint64_t>(chunks)));
}

void SharedLarge::publish(Counter LargeLane::*counter, uint64_t steps) {
  (lane(node_->rank()).*counter).value.store(value_of(number_, steps), std::memory_order_release);
}

int64_t SharedLarge::elements(int part, int64_t chunk) const {
  return std::clamp<int64_t>(count(part) - chunk * chunk_elements_, 0, chunk_elements_);
}

int64_t SharedLarge::byte_offset(int part, int64_t chunk) const {
  return (offsets_[static_cast<size_t>(part)] + chunk * chunk_elements_) * element_bytes_;
}

/// What `local` has for `part`, in its own buffer.
const std::byte* SharedLarge::source(int local, int part, int64_t chunk) const {
  const auto* send = local == node_->rank() ? static_cast<const std::byte*>(call_.send)
                                            : node_->base(local) + lane(local).send;
  return send + (reduces_ || exchanges_ ? byte_offset(part, chunk)
                                        : chunk * chunk_elements_ * element_bytes_);
}

/// The same in its mailbox.
std::byte* SharedLarge::incoming(int local, int part, int64_t chunk) const {
  return lane(local).incoming[chunk % LargeLane::kSlots] + part * chunk_elements_ * element_bytes_;
}

std::byte* SharedLarge::result(int local, int64_t chunk) const {
  return lane(local).results[chunk % LargeLane::kSlots];
}

std::byte* SharedLarge::own_target(int64_t chunk) const {
  return static_cast<std::byte*>(call_.recv) +
         (gathers_ ? byte_offset(node_->rank(), chunk) : chunk * chunk_elements_ * result_bytes_);
}

void SharedLarge::announce() {
  LargeLane& own = lane(node_->rank());
  const int64_t all = call_.elements() * element_bytes_;
  const int64_t mine = count(node_->rank()) * result_bytes_;
  const auto offset = [&](const void* memory, int64_t bytes) {
    return bytes == 0 ? 0 : node_->offset(memory, bytes);
  };
  own.signature = call_.signature();
  own.send = offset(call_.send, reduces_ || exchanges_ ? all : mine);
  own.recv = offset(call_.recv, call_.op == CLEAVE_REDUCE_SCATTER ? mine : all);
  publish(&LargeLane::announced, 0);
}

/// A call that differs is found as soon as it is there.
bool SharedLarge::all_have_announced() {
  for (; num_announced_ < node_->size(); ++num_announced_) {
    const LargeLane& next = lane(num_announced_);
    if (next.announced.value.load(std::memory_order_acquire) < value_of(number_, 0)) return false;
    check_same_call(call_.signature(), next.signature, node_->channel_rank(num_announced_));
  }
  return true;
}

void SharedLarge::choose_way() {
  bool all_send = true;
  bool all_recv = true;
  for (int local = 0; local < node_->size(); ++local) {
    all_send &= lane(local).send >= 0;
    all_recv &= lane(local).recv >= 0;
  }
  if (reduces_ && gathers_)
    way_ = all_send && all_recv ? Way::push : Way::staged;
  else if (call_.op == CLEAVE_ALL_GATHER)
    way_ = all_recv ? Way::push : all_send ? Way::pull : Way::staged;
  else  // nobody writes what somebody else has written last
    way_ = all_send ? Way::pull : Way::staged;
  if (way_ != Way::staged || !(reduces_ || exchanges_)) in_ = num_chunks_;
  if (way_ != Way::staged || !gathers_) collected_ = num_chunks_;
  if (num_chunks_ == 0) publish(&LargeLane::out, 0);
}

void SharedLarge::put_in(int64_t chunk) {
  for (int part = 0; part < node_->size(); ++part)
    if (part != node_->rank())
      stream_copy(incoming(node_->rank(), part, chunk), source(node_->rank(), part, chunk),
                  elements(part, chunk) * element_bytes_);
}

void SharedLarge::reduce(int64_t chunk) {
  const int me = node_->rank();
  sources_.clear();
  targets_ = {own_target(chunk)};
  for (int local = 0; local < node_->size(); ++local) {
    const bool is_direct = way_ != Way::staged || local == me;
    sources_.push_back(is_direct ? source(local, me, chunk) : incoming(local, me, chunk));
    if (way_ == Way::push && local != me)
      targets_.push_back(node_->base(local) + lane(local).recv + byte_offset(me, chunk));
  }
  if (call_.keeps_float32)
    reduce_into(CLEAVE_FLOAT32, own_target(chunk), call_.dtype, call_.reduction, sources_.data(),
                node_->size(), elements(me, chunk));
  else
    reduce_buffers(call_.dtype, call_.reduction, sources_.data(), node_->size(), targets_.data(),
                   static_cast<int>(targets_.size()), elements(me, chunk));
  if (way_ == Way::staged && gathers_)
    stream_copy(result(me, chunk), own_target(chunk), elements(me, chunk) * element_bytes_);
}

/// all_to_all: every rank's block for this one.
void SharedLarge::take_blocks(int64_t chunk) {
  const int me = node_->rank();
  for (int local = 0; local < node_->size(); ++local) {
    const bool is_direct = way_ == Way::pull || local == me;
    std::memcpy(static_cast<std::byte*>(call_.recv) + byte_offset(local, chunk),
                is_direct ? source(local, me, chunk) : incoming(local, me, chunk),
                static_cast<size_t>(elements(me, chunk) * element_bytes_));
  }
}

/// This rank's block to wherever the others expect it.
void SharedLarge::show_own(int64_t chunk) {
  const int me = node_->rank();
  const auto bytes = static_cast<size_t>(elements(me, chunk) * element_bytes_);
  if (bytes == 0) return;
  const std::byte* own = source(me, me, chunk);
  if (own != own_target(chunk)) std::memcpy(own_target(chunk), own, bytes);
  if (way_ == Way::staged) std::memcpy(result(me, chunk), own, bytes);
  if (way_ != Way::push) return;
  for (int local = 0; local < node_->size(); ++local)
    if (local != me)
      std::memcpy(node_->base(local) + lane(local).recv + byte_offset(me, chunk), own, bytes);
}

/// The other ranks' blocks.
void SharedLarge::collect(int64_t chunk) {
  for (int local = 0; local < node_->size(); ++local) {
    if (local == node_->rank() || elements(local, chunk) == 0) continue;
    std::memcpy(static_cast<std::byte*>(call_.recv) + byte_offset(local, chunk),
                way_ == Way::pull ? source(local, local, chunk) : result(local, chunk),
                static_cast<size_t>(elements(local, chunk) * element_bytes_));
  }
}

bool SharedLarge::step_in() {
  if (in_ == num_chunks_) return false;
  if (in_ >= LargeLane::kSlots && !has_reached(&LargeLane::out, in_ - LargeLane::kSlots + 1))
    return false;
  put_in(in_);
  publish(&LargeLane::in, steps(++in_));
  return true;
}

bool SharedLarge::step_out() {
  if (out_ == num_chunks_) return false;
  if (way_ == Way::staged) {
    if ((reduces_ || exchanges_) && !has_reached(&LargeLane::in, out_ + 1)) return false;
    if (gathers_ && out_ >= LargeLane::kSlots &&
        !has_reached(&LargeLane::done, out_ - LargeLane::kSlots + 1))
      return false;
  }
  if (reduces_)
    reduce(out_);
  else if (exchanges_)
    take_blocks(out_);
  else
    show_own(out_);
  if (gathers_ && !reduces_ && way_ == Way::pull) collect(out_);
  ++out_;
  if (way_ == Way::staged || out_ == num_chunks_) publish(&LargeLane::out, steps(out_));
  return true;
}

bool SharedLarge::step_collect() {
  if (collected_ == num_chunks_ || !has_reached(&LargeLane::out, collected_ + 1)) return false;
  collect(collected_);
  publish(&LargeLane::done, steps(++collected_));
  return true;
}

bool SharedLarge::move() {
  bool moved = false;
  for (int step = 0; step < kStepsPerAdvance; ++step) {
    const bool any = step_in() | step_out() | step_collect();
    if (!any) break;
    moved = true;
  }
  return moved;
}

bool SharedLarge::advance() {
  bool moved = false;
  if (stage_ == Stage::waiting_for_lane) {
    const uint64_t lanes = Mailbox::kLargeLanes;
    if (number_ > lanes && !all_reached(&LargeLane::done, value_of(number_ - lanes, kAllSteps)))
      return false;
    announce();
    stage_ = Stage::announced;
    moved = true;
  }
  if (stage_ == Stage::announced) {
    if (!all_have_announced()) return moved;
    choose_way();
    stage_ = Stage::moving;
  }
  if (stage_ == Stage::moving) {
    moved |= move();
    if (in_ < num_chunks_ || out_ < num_chunks_ || collected_ < num_chunks_) return moved;
    stage_ = Stage::closing;
  }
  // the others may still read or write this rank's buffers
  if (way_ != Way::staged && !has_reached(&LargeLane::out, num_chunks_)) return moved;
  publish(&LargeLane::done, kAllSteps);
  stage_ = Stage::finished;
  return true;
}

std::vector<int> SharedLarge::waits_for() const {
  const bool is_begun = stage_ == Stage::moving || stage_ == Stage::closing;
  auto counter = is_begun ? &LargeLane::out : &LargeLane::announced;
  uint64_t value = value_of(number_, is_begun ? steps(std::min(out_ + 1, num_chunks_)) : 0);
  if (stage_ == Stage::waiting_for_lane) {
    counter = &LargeLane::done;
    value = value_of(number_ - Mailbox::kLargeLanes, kAllSteps);
  }
  return node_->ranks_where([&](int local) {
    return (lane(local).*counter).value.load(std::memory_order_acquire) < value;
  });
}

}  // namespace cleave::mpi
