#include "transaction.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <thread>

#include "cleave/backend.h"
#include "cleave/error.h"
#include "cleave/reduce.h"

namespace cleave::local {
namespace {

// Large enough that claiming costs nothing, small enough that all ranks get a share.
constexpr int64_t kPieceBytes = 128 * 1024;

int64_t prefix(const std::vector<int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

}  // namespace

std::string Transaction::add(int slot, int rank, const cleave_collective& call, int group_size) {
  Call& mine = calls_[static_cast<size_t>(slot)];
  mine = Call(call, group_size);
  ++num_arrived_;
  if (first_arrived_ < 0) first_arrived_ = slot;
  const Call& first = calls_[static_cast<size_t>(first_arrived_)];
  if (mine.args.op == CLEAVE_SEND || mine.args.op == CLEAVE_RECV) {
    if (!all_arrived() ||
        (mine.args.dtype == first.args.dtype && mine.args.count == first.args.count))
      return "";
    return message("the two sides of a transfer differ: ", describe(calls_[0]), ", ",
                   describe(calls_[1]), ", tag ", mine.args.tag,
                   "; both must give the same count and dtype");
  }
  if (match(mine, first)) return "";
  return message("the ranks' calls differ: rank ", first_arrived_, " called ", describe(first),
                 ", rank ", rank, " called ", describe(mine),
                 "; all ranks must make the same calls in the same order");
}

std::string Transaction::missing() const {
  if (all_arrived()) return "the copy";
  const cleave_collective& first = calls_[static_cast<size_t>(first_arrived_)].args;
  if (first.op == CLEAVE_SEND || first.op == CLEAVE_RECV) return message("rank ", first.peer);
  std::string text;
  for (size_t slot = 0; slot < calls_.size(); ++slot)
    if (!calls_[slot].arrived) text += (text.empty() ? "rank " : ", ") + std::to_string(slot);
  return text;
}

void Transaction::add_copies(const void* from, int64_t from_offset, void* to, int64_t to_offset,
                             int64_t elements) {
  const int64_t size = dtype_bytes(calls_[0].args.dtype);
  const char* source = static_cast<const char*>(from) + from_offset * size;
  char* target = static_cast<char*>(to) + to_offset * size;
  if (source == target) return;
  for (int64_t begin = 0; begin < elements * size; begin += kPieceBytes)
    pieces_.push_back(
        {source + begin, target + begin, 0, 0, 0, std::min(kPieceBytes, elements * size - begin)});
}

void Transaction::add_reduction(int target, int64_t source_offset, int64_t elements) {
  const int64_t size = dtype_bytes(calls_[0].args.dtype);
  for (int64_t begin = 0; begin < elements * size; begin += kPieceBytes)
    pieces_.push_back({nullptr, nullptr, target, source_offset * size + begin, begin,
                       std::min(kPieceBytes, elements * size - begin)});
}

std::string Transaction::plan_all_to_all() {
  const int n = static_cast<int>(calls_.size());
  for (int from = 0; from < n; ++from) {
    for (int to = 0; to < n; ++to) {
      const Call& sender = calls_[static_cast<size_t>(from)];
      const Call& receiver = calls_[static_cast<size_t>(to)];
      const int64_t sent = sender.send_counts[static_cast<size_t>(to)];
      const int64_t expected = receiver.recv_counts[static_cast<size_t>(from)];
      if (sent != expected)
        return message("the ranks' calls differ: rank ", from, " called ", describe(sender),
                       ", rank ", to, " called ", describe(receiver), "; rank ", from, " sends ",
                       sent, " elements to rank ", to, " and must send ", expected);
      add_copies(sender.args.send, prefix(sender.send_counts, to), receiver.args.recv,
                 prefix(receiver.recv_counts, from), sent);
    }
  }
  return "";
}

std::string Transaction::plan() {
  const Call& any = calls_[0];
  const int n = static_cast<int>(calls_.size());
  std::string error;
  switch (any.args.op) {
    case CLEAVE_ALL_REDUCE:
      add_reduction(-1, 0, any.args.count);
      break;
    case CLEAVE_REDUCE_SCATTER:
      for (int rank = 0; rank < n; ++rank)
        add_reduction(rank, prefix(any.recv_counts, rank),
                      any.recv_counts[static_cast<size_t>(rank)]);
      break;
    case CLEAVE_ALL_GATHER:
      for (int from = 0; from < n; ++from)
        for (const Call& to : calls_)
          add_copies(calls_[static_cast<size_t>(from)].args.send, 0, to.args.recv,
                     prefix(any.recv_counts, from), any.recv_counts[static_cast<size_t>(from)]);
      break;
    case CLEAVE_BROADCAST:
      for (const Call& to : calls_)
        add_copies(calls_[static_cast<size_t>(any.args.peer)].args.recv, 0, to.args.recv, 0,
                   any.args.count);
      break;
    case CLEAVE_ALL_TO_ALL:
      error = plan_all_to_all();
      break;
    case CLEAVE_SEND:
      add_copies(any.args.send, 0, calls_[1].args.recv, 0, any.args.count);
      break;
    default:
      break;
  }
  for (const Piece& piece : pieces_) bytes_ += piece.bytes;
  return error;
}

void Transaction::reduce(const Piece& piece) const {
  std::array<const void*, kMaxRanks> sources;
  std::array<void*, kMaxRanks> targets;
  int num_targets = 0;
  for (size_t slot = 0; slot < calls_.size(); ++slot) {
    const cleave_collective& args = calls_[slot].args;
    sources[slot] = static_cast<const char*>(args.send) + piece.source_offset;
    if (piece.target < 0 || piece.target == static_cast<int>(slot))
      targets[static_cast<size_t>(num_targets++)] =
          static_cast<char*>(args.recv) + piece.target_offset;
  }
  const cleave_collective& args = calls_[0].args;
  reduce_buffers(static_cast<cleave_dtype>(args.dtype),
                 static_cast<cleave_reduction>(args.reduction), sources.data(),
                 static_cast<int>(calls_.size()), targets.data(), num_targets,
                 piece.bytes / dtype_bytes(args.dtype));
}

bool Transaction::run_piece() {
  active_.fetch_add(1);
  bool ran = false;
  if (status_.load() == CLEAVE_PENDING) {  // after active_: fail() waits for us or we see it
    const size_t index = next_.fetch_add(1);
    if (index < pieces_.size()) {
      const Piece& piece = pieces_[index];
      if (piece.from)
        std::memcpy(piece.to, piece.from, static_cast<size_t>(piece.bytes));
      else
        reduce(piece);
      done_.fetch_add(1, std::memory_order_acq_rel);
      ran = true;
    }
  }
  active_.fetch_sub(1);
  return ran;
}

void Transaction::fail(cleave_status status, const std::string& reason) {
  if (status_.load() != CLEAVE_PENDING) return;
  reason_ = reason;
  status_.store(status);
  while (active_.load() > 0) std::this_thread::yield();
}

}  // namespace cleave::local
