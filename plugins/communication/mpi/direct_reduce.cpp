#include "direct_reduce.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "cleave/backend.h"
#include "cleave/error.h"
#include "cleave/reduce.h"

namespace cleave::mpi {

DirectReduce::DirectReduce(std::shared_ptr<Channel> channel, Group group, DirectCall call)
    : channel_(std::move(channel)),
      group_(std::move(group)),
      call_(std::move(call)),
      element_bytes_(dtype_bytes(call_.dtype)),
      segment_elements_(std::max<int64_t>(1, channel_->settings.segment_bytes / element_bytes_)),
      part_dtype_(element_bytes_ == 2 ? CLEAVE_FLOAT32 : call_.dtype),
      sources_(static_cast<size_t>(group_.size())) {
  const auto offset = [&](int place) {
    return call_.whole
               ? 0
               : std::accumulate(call_.counts.begin(), call_.counts.begin() + place, int64_t{0});
  };
  own_offset_ = offset(group_.rank);
  own_segments_ = segments_of(group_.rank);
  // Starting behind itself, so that the ranks do not all send to the first one first.
  for (int step = 1; step < group_.size(); ++step) {
    const int place = (group_.rank + step) % group_.size();
    peers_.push_back(Peer{.place = place,
                          .rank = group_.at(place),
                          .offset = offset(place),
                          .segments = segments_of(place)});
  }
}

int64_t DirectReduce::segments_of(int place) const {
  return (call_.counts[static_cast<size_t>(place)] + segment_elements_ - 1) / segment_elements_;
}

int64_t DirectReduce::elements(int64_t block_elements, int64_t segment) const {
  return std::min(segment_elements_, block_elements - segment * segment_elements_);
}

std::byte* DirectReduce::slot(int64_t segment, int place) const {
  const int64_t index = (segment % kAhead) * group_.size() + place;
  return scratch_.data() + index * segment_elements_ * element_bytes_;
}

std::byte* DirectReduce::part_sum(size_t part) const {
  return slot(0, 0) + kAhead * group_.size() * segment_elements_ * element_bytes_ +
         static_cast<int64_t>(part) * segment_elements_ * dtype_bytes(part_dtype_);
}

bool DirectReduce::collect(Peer& peer) {
  bool moved = false;
  for (; peer.receives.pop(); moved = true) ++peer.receives_done;
  for (; peer.sends.pop(); moved = true) ++peer.sends_done;
  return moved;
}

bool DirectReduce::post(Peer& peer) {
  bool moved = false;
  const int64_t own = call_.counts[static_cast<size_t>(group_.rank)];
  const int64_t ahead = std::min(own_segments_, reduced_ + kAhead);
  for (; peer.receives_posted < ahead; ++peer.receives_posted, moved = true) {
    const int64_t segment = peer.receives_posted;
    peer.receives.receive(*channel_, slot(segment, peer.place),
                          elements(own, segment) * element_bytes_, peer.rank, call_.tag,
                          call_.dtype);
  }
  const int64_t block = call_.counts[static_cast<size_t>(peer.place)];
  for (; peer.sends_posted < peer.segments && !peer.sends.full();
       ++peer.sends_posted, moved = true) {
    const int64_t segment = peer.sends_posted;
    const int64_t offset = (peer.offset + segment * segment_elements_) * element_bytes_;
    peer.sends.send(*channel_, static_cast<const std::byte*>(call_.send) + offset,
                    elements(block, segment) * element_bytes_, peer.rank, call_.tag, call_.dtype);
  }
  return moved;
}

bool DirectReduce::may_reduce() const {
  if (reduced_ == own_segments_) return false;
  return std::all_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
    // whole, in place: the result goes where the data for the peers are
    return peer.receives_done > reduced_ && (!call_.whole || peer.sends_done > reduced_);
  });
}

void DirectReduce::reduce_segment() {
  const int64_t begin = reduced_ * segment_elements_;
  const int64_t count = elements(call_.counts[static_cast<size_t>(group_.rank)], reduced_);
  for (int place = 0; place < group_.size(); ++place)
    sources_[static_cast<size_t>(place)] = slot(reduced_, place);
  sources_[static_cast<size_t>(group_.rank)] =
      static_cast<const std::byte*>(call_.send) + (own_offset_ + begin) * element_bytes_;
  sum_parts(count);
  const std::vector<const void*>& terms = sums_.empty() ? sources_ : sums_;
  reduce_into(call_.result, static_cast<std::byte*>(call_.recv) + begin * dtype_bytes(call_.result),
              sums_.empty() ? call_.dtype : part_dtype_, call_.reduction, terms.data(),
              static_cast<int>(terms.size()), count);
  ++reduced_;
}

void DirectReduce::sum_parts(int64_t elements) {
  sums_.clear();
  for (const std::vector<int>& part : call_.parts) {
    members_.clear();
    for (const int place : part) members_.push_back(sources_[static_cast<size_t>(place)]);
    std::byte* target = part_sum(sums_.size());
    reduce_into(part_dtype_, target, call_.dtype, call_.reduction, members_.data(),
                static_cast<int>(members_.size()), elements);
    sums_.push_back(target);
  }
}

bool DirectReduce::advance() {
  if (!scratch_) {
    const int64_t largest = *std::max_element(call_.counts.begin(), call_.counts.end());
    segment_elements_ = std::min(segment_elements_, std::max<int64_t>(largest, 1));
    const int64_t element_bytes = kAhead * group_.size() * element_bytes_ +
                                  std::ssize(call_.parts) * dtype_bytes(part_dtype_);
    scratch_ = channel_->scratch->take(element_bytes * segment_elements_);
  }
  bool moved = false;
  for (Peer& peer : peers_) moved |= collect(peer);
  for (; may_reduce(); moved = true) reduce_segment();
  for (Peer& peer : peers_) moved |= post(peer);
  return moved;
}

bool DirectReduce::finished() const {
  return reduced_ == own_segments_ &&
         std::all_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return peer.sends_done == peer.segments; });
}

std::vector<int> DirectReduce::waits_for() const {
  std::vector<int> ranks;
  for (const Peer& peer : peers_)
    if (!peer.receives.empty() || !peer.sends.empty()) ranks.push_back(peer.rank);
  return ranks;
}

void DirectReduce::cancel() noexcept {
  for (Peer& peer : peers_) {
    peer.receives.cancel();
    peer.sends.cancel();
  }
}

bool DirectReduce::drained() noexcept {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](Peer& peer) { return peer.receives.drained() && peer.sends.drained(); });
}

}  // namespace cleave::mpi
