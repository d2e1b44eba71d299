#include "exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cleave/error.h"
#include "split_message.h"

namespace cleave::mpi {
namespace {

int count_requests(const Channel& channel, const std::vector<Transfer>& transfers) {
  const int64_t limit = channel.settings.max_message_bytes;
  int64_t requests = 0;
  for (const Transfer& transfer : transfers)
    requests +=
        (transfer.send_bytes + limit - 1) / limit + (transfer.recv_bytes + limit - 1) / limit;
  return static_cast<int>(requests);
}

}  // namespace

Exchange::Exchange(std::shared_ptr<Channel> channel, std::vector<Transfer> transfers, int tag,
                   bool wire)
    : channel_(std::move(channel)), transfers_(std::move(transfers)), tag_(tag), requests_(0) {
  for (Transfer& transfer : transfers_) {
    if (wire || transfer.peer != channel_->rank) continue;
    if (transfer.send != transfer.recv && transfer.send_bytes > 0)
      std::memcpy(transfer.recv, transfer.send, static_cast<size_t>(transfer.send_bytes));
    transfer.send_bytes = transfer.recv_bytes = 0;
  }
  requests_ = Window(count_requests(*channel_, transfers_));
}

void Exchange::start() {
  const int64_t limit = channel_->settings.max_message_bytes;
  for (const Transfer& transfer : transfers_)  // first: a message that is expected is copied once
    for (const Message& part : split_message(transfer.recv_bytes, limit))
      requests_.receive(*channel_, static_cast<std::byte*>(transfer.recv) + part.offset, part.bytes,
                        transfer.peer, tag_);
  for (const Transfer& transfer : transfers_)
    for (const Message& part : split_message(transfer.send_bytes, limit))
      requests_.send(*channel_, static_cast<const std::byte*>(transfer.send) + part.offset,
                     part.bytes, transfer.peer, tag_);
}

bool Exchange::advance() {
  bool moved = !started_;
  if (!started_) start();
  started_ = true;
  while (requests_.pop()) moved = true;
  return moved;
}

std::vector<int> Exchange::waits_for() const {
  return {requests_.peer()};
}

Broadcast::Broadcast(std::shared_ptr<Channel> channel, void* data, int64_t bytes, int root, int tag)
    : channel_(std::move(channel)),
      data_(static_cast<std::byte*>(data)),
      bytes_(bytes),
      segment_bytes_(channel_->settings.segment_bytes),
      segments_((bytes + segment_bytes_ - 1) / segment_bytes_),
      tag_(tag) {
  const int place = (channel_->rank - root + channel_->size) % channel_->size;
  receives_from_left_ = place > 0;
  sends_to_right_ = place < channel_->size - 1;
}

void Broadcast::post(Window& window, int64_t& posted, bool sending) {
  const int64_t offset = posted * segment_bytes_;
  const int64_t bytes = std::min(segment_bytes_, bytes_ - offset);
  const int step = sending ? 1 : channel_->size - 1;
  const int peer = (channel_->rank + step) % channel_->size;
  ++posted;
  if (sending)
    window.send(*channel_, data_ + offset, bytes, peer, tag_);
  else
    window.receive(*channel_, data_ + offset, bytes, peer, tag_);
}

bool Broadcast::advance() {
  bool moved = false;
  for (; receives_.pop(); moved = true) ++received_;
  for (; sends_.pop(); moved = true) ++sent_;
  if (receives_from_left_)
    for (; receives_posted_ < segments_ && !receives_.full(); moved = true)
      post(receives_, receives_posted_, false);
  const int64_t available = receives_from_left_ ? received_ : segments_;
  if (sends_to_right_)
    for (; sends_posted_ < available && !sends_.full(); moved = true)
      post(sends_, sends_posted_, true);
  return moved;
}

bool Broadcast::finished() const {
  return (!receives_from_left_ || received_ == segments_) &&
         (!sends_to_right_ || sent_ == segments_);
}

std::vector<int> Broadcast::waits_for() const {
  return {receives_.empty() ? sends_.peer() : receives_.peer()};
}

void Broadcast::cancel() noexcept {
  receives_.cancel();
  sends_.cancel();
}

bool Broadcast::drained() noexcept {
  return receives_.drained() && sends_.drained();
}

Barrier::Barrier(std::shared_ptr<Channel> channel, int tag)
    : channel_(std::move(channel)), tag_(tag) {}

bool Barrier::advance() {
  bool moved = false;
  while (true) {
    while (requests_.pop()) moved = true;
    if (!requests_.empty() || distance_ >= channel_->size) return moved;
    const int step = static_cast<int>(distance_);
    distance_ *= 2;
    requests_.receive(*channel_, nullptr, 0,
                      (channel_->rank - step + channel_->size) % channel_->size, tag_);
    requests_.send(*channel_, nullptr, 0, (channel_->rank + step) % channel_->size, tag_);
    moved = true;
  }
}

std::vector<int> Barrier::waits_for() const {
  return {requests_.peer()};
}

}  // namespace cleave::mpi
