#include "staged.h"

#include <algorithm>
#include <utility>

namespace cleave::mpi {
namespace {

// Of a pinned buffer: long enough that a copy's start does not count, short enough that the first
// and the last chunk, which nothing hides, are a small part of a large operation.
constexpr int64_t kChunkBytes = 4 << 20;

}  // namespace

Staged::Staged(std::shared_ptr<const StageMaker> stages, Device& device, StagedCall call,
               bool is_direct)
    : stages_(std::move(stages)),
      device_(device),
      call_(std::move(call)),
      is_direct_(is_direct),
      rank_(stages_->rank()) {
  const Call& whole = call_.call;
  const int64_t blocks = is_blocked() ? static_cast<int64_t>(whole.counts.size()) : 1;
  chunk_elements_ = std::max<int64_t>(1, kChunkBytes / blocks / whole.element_bytes);
  int64_t longest = whole.op == CLEAVE_BARRIER ? 0 : whole.count;
  if (is_blocked()) longest = *std::max_element(whole.counts.begin(), whole.counts.end());
  for (const int64_t count : whole.send_counts) longest = std::max(longest, count);
  num_chunks_ =
      is_direct_ ? 1 : std::max<int64_t>(1, (longest + chunk_elements_ - 1) / chunk_elements_);
}

Staged::~Staged() {
  if (call_.ready) device_.release(call_.ready);
  for (Slot& slot : slots_) {
    if (slot.event) device_.release(slot.event);
    if (slot.send) device_.give_back(slot.send);
    if (slot.recv && slot.recv != slot.send) device_.give_back(slot.recv);
  }
}

int64_t Staged::part(int64_t count, int64_t chunk) const {
  return std::clamp<int64_t>(count - chunk * chunk_elements_, 0, chunk_elements_);
}

std::vector<int64_t> Staged::parts(const std::vector<int64_t>& counts, int64_t chunk) const {
  std::vector<int64_t> result;
  for (const int64_t count : counts) result.push_back(part(count, chunk));
  return result;
}

bool Staged::reads() const {
  const Call& call = call_.call;
  if (call.op == CLEAVE_BROADCAST) return call.peer == rank_;
  return call.op != CLEAVE_RECV;
}

bool Staged::writes() const {
  const Call& call = call_.call;
  if (call.op == CLEAVE_BROADCAST) return call.peer != rank_;
  return call.op != CLEAVE_SEND;
}

/// all_to_all needs two; everything else happens in place.
void Staged::take_buffers(Slot& slot) {
  if (slot.send) return;
  const auto blocks = static_cast<int64_t>(is_blocked() ? call_.call.counts.size() : 1);
  const int64_t bytes = blocks * chunk_elements_ * call_.call.element_bytes;
  slot.send = static_cast<std::byte*>(device_.pinned(bytes));
  slot.recv = call_.call.op == CLEAVE_ALL_TO_ALL ? static_cast<std::byte*>(device_.pinned(bytes))
                                                 : slot.send;
}

/// The operation on this chunk, in host memory.
Call Staged::chunk_call(const Slot& slot) const {
  Call call = call_.call;
  call.send = slot.send;
  call.recv = slot.recv;
  if (!is_blocked()) {
    call.count = part(call.count, slot.chunk);
    call.bytes = call.count * call.element_bytes;
    return call;
  }
  call.is_uneven = true;
  call.counts = parts(call_.call.counts, slot.chunk);
  call.send_counts = parts(call_.call.send_counts, slot.chunk);
  call.bytes = std::max(sum(call.counts), sum(call.send_counts)) * call.element_bytes;
  const int64_t own = offsets(call.counts)[static_cast<size_t>(rank_)] * call.element_bytes;
  if (call.op == CLEAVE_REDUCE_SCATTER) call.recv = slot.recv + own;
  if (call.op == CLEAVE_ALL_GATHER) call.send = slot.send + own;
  return call;
}

void Staged::copy_in(Slot& slot) {
  take_buffers(slot);
  const Call& whole = call_.call;
  const Call call = chunk_call(slot);
  const int64_t first = slot.chunk * chunk_elements_;
  const auto copy = [&](std::byte* to, int64_t from, int64_t elements) {
    if (elements > 0) device_.copy_to_host(to, whole.send_at(from), elements * whole.element_bytes);
  };
  if (reads()) {
    if (whole.op == CLEAVE_BROADCAST) {
      if (call.count > 0) device_.copy_to_host(slot.send, whole.recv_at(first), call.bytes);
    } else if (!is_blocked()) {
      copy(slot.send, first, call.count);
    } else if (whole.op == CLEAVE_ALL_GATHER) {
      copy(const_cast<std::byte*>(static_cast<const std::byte*>(call.send)), first,
           call.counts[static_cast<size_t>(rank_)]);
    } else {
      const bool exchanges = whole.op == CLEAVE_ALL_TO_ALL;
      const std::vector<int64_t>& counts = exchanges ? call.send_counts : call.counts;
      const std::vector<int64_t> from = offsets(exchanges ? whole.send_counts : whole.counts);
      const std::vector<int64_t> to = offsets(counts);
      for (size_t block = 0; block < counts.size(); ++block)
        copy(slot.send + to[block] * whole.element_bytes, from[block] + first, counts[block]);
    }
  }
  slot.event = device_.record_copies();
  slot.step = Step::copying_in;
}

void Staged::copy_out(Slot& slot) {
  const Call& whole = call_.call;
  const Call call = chunk_call(slot);
  const int64_t first = slot.chunk * chunk_elements_;
  const auto copy = [&](int64_t to, const void* from, int64_t elements) {
    if (elements > 0)
      device_.copy_to_device(whole.recv_at(to), from, elements * whole.element_bytes);
  };
  if (writes()) {
    if (!is_blocked()) {
      copy(first, slot.recv, call.count);
    } else if (whole.op == CLEAVE_REDUCE_SCATTER) {
      copy(first, call.recv, call.counts[static_cast<size_t>(rank_)]);
    } else {
      const std::vector<int64_t> from = offsets(call.counts);
      const std::vector<int64_t> to = offsets(whole.counts);
      for (size_t block = 0; block < call.counts.size(); ++block)
        copy(to[block] + first, slot.recv + from[block] * whole.element_bytes, call.counts[block]);
    }
  }
  slot.event = device_.record_copies();
  slot.step = Step::copying_out;
}

bool Staged::has_happened(void*& event) {
  if (!event) return true;
  if (!device_.has_happened(event)) return false;
  device_.release(std::exchange(event, nullptr));
  return true;
}

bool Staged::communicate(Slot& slot) {
  bool moved = false;
  while (slot.stage < slot.stages.size()) {
    moved |= slot.stages[slot.stage]->advance();
    if (!slot.stages[slot.stage]->finished()) return moved;
    ++slot.stage;
  }
  slot.stages.clear();
  ++communicated_;
  if (is_direct_) {
    slot.step = Step::idle;
    ++finished_;
  } else {
    copy_out(slot);
  }
  return true;
}

/// One slot a step forward.
bool Staged::pass(Slot& slot) {
  switch (slot.step) {
    case Step::idle:
      if (started_ == num_chunks_) return false;
      slot.chunk = started_++;
      if (is_direct_)
        slot.step = Step::ready;
      else
        copy_in(slot);
      return true;
    case Step::copying_in:
      if (!has_happened(slot.event)) return false;
      slot.step = Step::ready;
      return true;
    case Step::ready:  // in the order of the chunks, which is the same on all ranks
      if (slot.chunk != communicated_) return false;
      slot.stages =
          stages_->make(is_direct_ ? call_.call : chunk_call(slot), call_.algorithm, call_.tag);
      slot.stage = 0;
      slot.step = Step::communicating;
      return true;
    case Step::communicating:
      return communicate(slot);
    case Step::copying_out:
      if (!has_happened(slot.event)) return false;
      slot.step = Step::idle;
      ++finished_;
      return true;
  }
  return false;
}

bool Staged::advance() {
  device_.use(call_.gpu);
  if (!has_happened(call_.ready)) return false;
  bool moved = false;
  for (Slot& slot : slots_) moved |= pass(slot);
  return moved;
}

std::vector<int> Staged::waits_for() const {
  for (const Slot& slot : slots_)
    if (slot.step == Step::communicating) return slot.stages[slot.stage]->waits_for();
  return {};
}

void Staged::cancel() noexcept {
  for (Slot& slot : slots_)
    for (const auto& stage : slot.stages) stage->cancel();
}

bool Staged::drained() noexcept {
  for (Slot& slot : slots_)
    for (const auto& stage : slot.stages)
      if (!stage->drained()) return false;
  return true;
}

}  // namespace cleave::mpi
