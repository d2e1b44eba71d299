#include "halving.h"

#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "cleave/backend.h"
#include "cleave/error.h"
#include "cleave/reduce.h"

namespace cleave::mpi {

Halving::Halving(std::shared_ptr<Channel> channel, Group group, RingCall call)
    : channel_(std::move(channel)),
      group_(std::move(group)),
      call_(std::move(call)),
      num_halvings_(std::bit_width(static_cast<unsigned>(group_.size())) - 1),
      end_(call_.reduces && call_.gathers ? 2 * num_halvings_ : num_halvings_),
      element_bytes_(dtype_bytes(call_.dtype)) {
  CLEAVE_CHECK(std::has_single_bit(static_cast<unsigned>(group_.size())), group_.size(), " ranks");
}

/// Between partners: n/2 .. 1 while reducing, 1 .. n/2 while gathering.
int Halving::distance(int step) const {
  if (is_reducing(step)) return group_.size() >> (step + 1);
  return 1 << (call_.reduces ? step - num_halvings_ : step);
}

/// The `distance` blocks around the one of `place`.
Halving::Range Halving::range_of(int place, int distance) const {
  const int first = place / distance * distance;
  return {first, first + distance};
}

int64_t Halving::elements(const Range& range) const {
  return std::accumulate(call_.counts.begin() + range.first, call_.counts.begin() + range.last,
                         int64_t{0});
}

std::byte* Halving::data(const Range& range) const {
  auto* all = call_.gathers ? static_cast<std::byte*>(call_.recv) : whole_.data();
  return all + call_.offsets[static_cast<size_t>(range.first)] * element_bytes_;
}

void Halving::prepare() {
  const Range all{0, group_.size()};
  const Range own{group_.rank, group_.rank + 1};
  const auto bytes = [&](const Range& range) {
    return static_cast<size_t>(elements(range) * element_bytes_);
  };
  if (call_.reduces) received_ = channel_->scratch->take(static_cast<int64_t>(bytes(all)));
  if (!call_.gathers) whole_ = channel_->scratch->take(static_cast<int64_t>(bytes(all)));
  const Range& given = call_.reduces ? all : own;
  if (call_.send != data(given) && bytes(given) > 0)
    std::memcpy(data(given), call_.send, bytes(given));
}

void Halving::post() {
  const int far = distance(step_);
  const int partner = group_.rank ^ far;
  const Range mine = range_of(group_.rank, far);
  const Range theirs = range_of(partner, far);
  const Range& incoming = is_reducing(step_) ? mine : theirs;
  const Range& outgoing = is_reducing(step_) ? theirs : mine;
  std::byte* target = is_reducing(step_) ? received_.data() : data(theirs);
  requests_.receive(*channel_, target, elements(incoming) * element_bytes_, group_.at(partner),
                    call_.tag);
  requests_.send(*channel_, data(outgoing), elements(outgoing) * element_bytes_, group_.at(partner),
                 call_.tag);
}

void Halving::absorb() {
  if (is_reducing(step_)) {
    const int far = distance(step_);
    const Range mine = range_of(group_.rank, far);
    const void* sources[] = {data(mine), received_.data()};
    if ((group_.rank & far) != 0) std::swap(sources[0], sources[1]);
    void* target = data(mine);
    reduce_buffers(call_.dtype, call_.reduction, sources, 2, &target, 1, elements(mine));
  }
  ++step_;
  if (step_ < end_ || call_.gathers) return;
  const Range own{group_.rank, group_.rank + 1};
  if (elements(own) > 0)
    std::memcpy(call_.recv, data(own), static_cast<size_t>(elements(own) * element_bytes_));
}

bool Halving::advance() {
  bool moved = false;
  if (!started_) {
    prepare();
    if (step_ < end_) post();
    started_ = moved = true;
  }
  while (step_ < end_) {
    while (requests_.pop()) moved = true;
    if (!requests_.empty()) break;
    absorb();
    if (step_ < end_) post();
    moved = true;
  }
  return moved;
}

std::vector<int> Halving::waits_for() const {
  return {requests_.peer()};
}

}  // namespace cleave::mpi
