#include "exchange.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "state.h"

namespace cleave::fake {
namespace {

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  // nearest, ties to even
  explicit BFloat16(float value) {
    const auto wide = std::bit_cast<uint32_t>(value);
    bits = static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

template <typename T>
T combine(T a, T b, ncclRedOp_t reduction) {
  if (reduction == ncclMax) return a < b ? b : a;
  return static_cast<T>(a + b);
}

template <typename T>
void add(std::vector<std::byte>& sum, const void* more, size_t count, ncclRedOp_t reduction) {
  for (size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, sum.data() + i * sizeof(T), sizeof(T));
    std::memcpy(&b, static_cast<const std::byte*>(more) + i * sizeof(T), sizeof(T));
    a = combine(a, b, reduction);
    std::memcpy(sum.data() + i * sizeof(T), &a, sizeof(T));
  }
}

void add(ncclDataType_t type, std::vector<std::byte>& sum, const void* more, size_t count,
         ncclRedOp_t reduction) {
  switch (type) {
    case ncclFloat32:
      return add<float>(sum, more, count, reduction);
    case ncclFloat64:
      return add<double>(sum, more, count, reduction);
    case ncclBfloat16:
      return add<BFloat16>(sum, more, count, reduction);
    case ncclFloat16:
      return add<_Float16>(sum, more, count, reduction);
    case ncclInt32:
      return add<int32_t>(sum, more, count, reduction);
    case ncclInt64:
      return add<int64_t>(sum, more, count, reduction);
    default:
      return add<uint8_t>(sum, more, count, reduction);
  }
}

void complain(const std::string& text) {
  const std::lock_guard lock(state().mutex);
  if (state().mismatch.empty()) state().mismatch = text;
}

void copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

/// Does the whole operation, for all ranks.
void perform(const std::vector<Operation>& ranks) {
  const Operation& first = ranks.front();
  const size_t n = ranks.size(), block = first.count * bytes_of(first.type);
  const bool scatters = first.kind == Kind::reduce_scatter;
  if (first.kind == Kind::broadcast) {
    const void* source = ranks[static_cast<size_t>(first.peer)].send;
    for (const Operation& rank : ranks) copy(rank.recv, source, block);
    return;
  }
  const size_t whole = scatters || first.kind == Kind::all_gather ? n * block : block;
  std::vector<std::byte> result(whole);
  for (size_t rank = 0; rank < n; ++rank) {
    const void* input = ranks[rank].send;
    if (first.kind == Kind::all_gather)
      copy(result.data() + rank * block, input, block);
    else if (rank == 0)
      copy(result.data(), input, whole);
    else
      add(first.type, result, input, scatters ? n * first.count : first.count, first.reduction);
  }
  for (size_t rank = 0; rank < n; ++rank) {
    if (first.kind == Kind::reduce && static_cast<int>(rank) != first.peer) continue;
    copy(ranks[rank].recv, result.data() + (scatters ? rank * block : 0), scatters ? block : whole);
  }
}

bool agree(const Operation& a, const Operation& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.reduction == b.reduction &&
         a.peer == b.peer;
}

}  // namespace

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

template <typename Condition>
bool Exchange::wait(Lock& lock, int rank, const Condition& condition) {
  const auto is_aborted = [&] { return aborted_[static_cast<size_t>(rank)] != 0; };
  changed_.wait(lock, [&] { return is_aborted() || condition(); });
  return !is_aborted();
}

void Exchange::meet(Lock& lock, int rank, const Operation& operation) {
  const int64_t number = sequence_[static_cast<size_t>(rank)]++;
  Meeting& meeting = meetings_[number];
  meeting.arrivals.resize(static_cast<size_t>(size_));
  meeting.arrivals[static_cast<size_t>(rank)] = {operation, true};
  std::vector<Operation> all;
  for (const Arrival& arrival : meeting.arrivals)
    if (arrival.is_there) all.push_back(arrival.operation);
  if (static_cast<int>(all.size()) == size_) {
    for (const Operation& other : all)
      if (!agree(all.front(), other)) complain("ranks called different operations");
    perform(all);
    meeting.is_done = true;
    changed_.notify_all();
  }
  wait(lock, rank, [&] { return meeting.is_done; });
  if (!meeting.is_done) {
    meeting.arrivals[static_cast<size_t>(rank)].is_there = false;  // its buffers may go
    return;
  }
  if (++meeting.left == size_) meetings_.erase(number);
}

void Exchange::receive(Lock& lock, int rank, const Operation& operation) {
  auto& queue = messages_[{operation.peer, rank}];
  if (!wait(lock, rank, [&] { return !queue.empty(); })) return;
  const auto message = queue.front();
  queue.pop_front();
  if (message->operation->count != operation.count || message->operation->type != operation.type)
    complain("a send and its recv differ");
  else
    copy(operation.recv, message->operation->send, operation.count * bytes_of(operation.type));
  message->is_taken = true;
  changed_.notify_all();
}

// All of a group start together, so the sends are offered before anything waits.
void Exchange::run(int rank, const std::vector<Operation>& group) {
  Lock lock(mutex_);
  if (!wait(lock, rank, [] { return !settings().holds; })) return;
  std::vector<std::pair<int, std::shared_ptr<Message>>> sent;
  for (const Operation& operation : group)
    if (operation.kind == Kind::send) {
      sent.emplace_back(operation.peer, std::make_shared<Message>(Message{&operation}));
      messages_[{rank, operation.peer}].push_back(sent.back().second);
    }
  changed_.notify_all();
  for (const Operation& operation : group) {
    if (operation.kind == Kind::recv)
      receive(lock, rank, operation);
    else if (operation.kind != Kind::send)
      meet(lock, rank, operation);
  }
  for (const auto& [peer, message] : sent)
    if (!wait(lock, rank, [&] { return message->is_taken; }))
      std::erase(messages_[{rank, peer}], message);
}

void Exchange::abort(int rank) {
  {
    const std::lock_guard lock(mutex_);
    aborted_[static_cast<size_t>(rank)] = 1;
  }
  changed_.notify_all();
}

}  // namespace cleave::fake
