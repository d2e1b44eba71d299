#include "signature.h"

#include "cleave/backend.h"
#include "cleave/error.h"

namespace cleave::local {
namespace {

std::vector<int64_t> counts_of(const int64_t* counts, int64_t count, int ranks) {
  if (counts) return {counts, counts + ranks};
  return std::vector<int64_t>(static_cast<size_t>(ranks), count);
}

std::string list(const std::vector<int64_t>& counts) {
  std::string text = "[";
  for (const int64_t count : counts) text += (text.size() > 1 ? ", " : "") + std::to_string(count);
  return text + "]";
}

}  // namespace

Call::Call(const cleave_collective& collective, int ranks) : args(collective), arrived(true) {
  const int32_t op = args.op;
  if (op == CLEAVE_REDUCE_SCATTER || op == CLEAVE_ALL_GATHER || op == CLEAVE_ALL_TO_ALL)
    recv_counts = counts_of(args.recv_counts, args.count, ranks);
  if (op == CLEAVE_ALL_TO_ALL) send_counts = counts_of(args.send_counts, args.count, ranks);
  args.send_counts = args.recv_counts = nullptr;
  if (!recv_counts.empty()) args.count = 0;  // the counts say it
}

std::string describe(const Call& call) {
  const cleave_collective& args = call.args;
  std::string text = op_name(args.op);
  if (args.op == CLEAVE_BARRIER) return text;
  if (args.op == CLEAVE_ALL_REDUCE || args.op == CLEAVE_REDUCE_SCATTER)
    text += message(" ", reduction_name(args.reduction));
  text += " of ";
  if (args.op == CLEAVE_ALL_TO_ALL)
    text += list(call.send_counts) + " to " + list(call.recv_counts);
  else
    text += call.recv_counts.empty() ? std::to_string(args.count) : list(call.recv_counts);
  text += message(" ", dtype_name(args.dtype));
  if (args.op == CLEAVE_BROADCAST) text += message(" from rank ", args.peer);
  return text;
}

bool match(const Call& a, const Call& b) {
  if (a.args.op != b.args.op) return false;
  switch (a.args.op) {
    case CLEAVE_BARRIER:
      return true;
    case CLEAVE_ALL_TO_ALL:
      return a.args.dtype == b.args.dtype;  // counts: pair by pair, later
    case CLEAVE_BROADCAST:
      if (a.args.peer != b.args.peer) return false;
      break;
    case CLEAVE_ALL_REDUCE:
    case CLEAVE_REDUCE_SCATTER:
      if (a.args.reduction != b.args.reduction) return false;
      break;
    default:
      break;
  }
  return a.args.dtype == b.args.dtype && a.args.count == b.args.count &&
         a.recv_counts == b.recv_counts;
}

}  // namespace cleave::local
