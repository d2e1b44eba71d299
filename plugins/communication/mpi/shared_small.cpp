#include "shared_small.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "cleave/backend.h"
#include "cleave/error.h"
#include "cleave/reduce.h"

namespace cleave::mpi {

SharedSmall::SharedSmall(std::shared_ptr<Node> node, SharedCall call)
    : node_(std::move(node)),
      call_(std::move(call)),
      element_bytes_(dtype_bytes(call_.dtype)),
      number_(node_->next_small()) {}

SmallLane& SharedSmall::lane(int local) const {
  return node_->mailbox(local).small[number_ % Mailbox::kSmallLanes];
}

bool SharedSmall::lane_is_free() const {
  const uint64_t lanes = Mailbox::kSmallLanes;
  if (number_ <= lanes) return true;
  for (int local = 0; local < node_->size(); ++local)
    if (lane(local).done.value.load(std::memory_order_acquire) < number_ - lanes) return false;
  return true;
}

/// A call that differs is found as soon as it is there.
bool SharedSmall::all_are_ready() {
  for (; num_ready_ < node_->size(); ++num_ready_) {
    const SmallLane& next = lane(num_ready_);
    if (next.ready.value.load(std::memory_order_acquire) < number_) return false;
    check_same_call(call_.signature(), next.signature, node_->channel_rank(num_ready_));
  }
  return true;
}

int64_t SharedSmall::offset_of(int local) const {
  return std::accumulate(call_.counts.begin(), call_.counts.begin() + local, int64_t{0});
}

void SharedSmall::put() {
  SmallLane& own = lane(node_->rank());
  own.signature = call_.signature();
  int64_t elements = call_.elements();
  if (call_.op == CLEAVE_ALL_GATHER) elements = call_.counts[static_cast<size_t>(node_->rank())];
  if (call_.op == CLEAVE_BROADCAST && call_.root != node_->rank()) elements = 0;
  if (elements > 0)
    std::memcpy(own.data, call_.send, static_cast<size_t>(elements * element_bytes_));
  own.ready.value.store(number_, std::memory_order_release);
}

void SharedSmall::reduce(int64_t offset, int64_t elements) {
  thread_local std::vector<const void*> sources;  // not for each call anew
  sources.clear();
  for (int local = 0; local < node_->size(); ++local)
    sources.push_back(lane(local).data + offset * element_bytes_);
  reduce_buffers(call_.dtype, call_.reduction, sources.data(), node_->size(), &call_.recv, 1,
                 elements);
}

void SharedSmall::read() {
  const int me = node_->rank();
  const int64_t own_count = call_.op == CLEAVE_BARRIER ? 0 : call_.counts[static_cast<size_t>(me)];
  auto* recv = static_cast<std::byte*>(call_.recv);
  const auto copy = [&](int64_t to, int from, int64_t at, int64_t elements) {
    if (elements > 0)
      std::memcpy(recv + to * element_bytes_, lane(from).data + at * element_bytes_,
                  static_cast<size_t>(elements * element_bytes_));
  };
  switch (call_.op) {
    case CLEAVE_ALL_REDUCE:
      reduce(0, call_.elements());
      break;
    case CLEAVE_REDUCE_SCATTER:
      reduce(offset_of(me), own_count);
      break;
    case CLEAVE_ALL_GATHER: {
      int64_t to = 0;
      for (int local = 0; local < node_->size(); ++local) {
        const int64_t count = call_.counts[static_cast<size_t>(local)];
        copy(to, local, 0, count);
        to += count;
      }
      break;
    }
    case CLEAVE_ALL_TO_ALL:
      for (int local = 0; local < node_->size(); ++local)
        copy(local * own_count, local, me * own_count, own_count);
      break;
    case CLEAVE_BROADCAST:
      if (me != call_.root) copy(0, call_.root, 0, call_.elements());
      break;
    default:
      break;
  }
}

bool SharedSmall::advance() {
  if (stage_ == Stage::waiting_for_lane) {
    if (!lane_is_free()) return false;
    put();
    stage_ = Stage::waiting_for_data;
  }
  if (!all_are_ready()) return false;
  read();
  lane(node_->rank()).done.value.store(number_, std::memory_order_release);
  stage_ = Stage::finished;
  return true;
}

std::vector<int> SharedSmall::waits_for() const {
  const bool has_lane = stage_ != Stage::waiting_for_lane;
  const auto counter = has_lane ? &SmallLane::ready : &SmallLane::done;
  const uint64_t value = has_lane ? number_ : number_ - Mailbox::kSmallLanes;
  return node_->ranks_where([&](int local) {
    return (lane(local).*counter).value.load(std::memory_order_acquire) < value;
  });
}

}  // namespace cleave::mpi
