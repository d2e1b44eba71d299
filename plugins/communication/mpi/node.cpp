#include "node.h"

#include <algorithm>
#include <new>
#include <utility>

#include "cleave/backend.h"
#include "cleave/error.h"

namespace cleave::mpi {
namespace {

std::string describe(const Signature& call) {
  const std::string reduction = call.op == CLEAVE_ALL_REDUCE || call.op == CLEAVE_REDUCE_SCATTER
                                    ? message(" ", reduction_name(call.reduction))
                                    : "";
  return message(op_name(call.op), reduction, " of ", call.elements, " ", dtype_name(call.dtype),
                 call.op == CLEAVE_BROADCAST ? message(" from rank ", call.root) : "");
}

}  // namespace

Node::Node(const Channel& channel, Arena& arena, std::vector<int> ranks,
           std::vector<std::byte*> bases)
    : arena_(arena), ranks_(std::move(ranks)), bases_(std::move(bases)) {
  rank_ = static_cast<int>(std::find(ranks_.begin(), ranks_.end(), channel.rank) - ranks_.begin());
  // Never given back: a neighbour may look at it after this rank has finished.
  void* memory = arena_.allocate(sizeof(Mailbox));
  const int64_t mine = memory ? offset(new (memory) Mailbox, sizeof(Mailbox)) : -1;
  std::vector<int64_t> offsets(static_cast<size_t>(channel.size));
  check(MPI_Allgather(&mine, 1, MPI_INT64_T, offsets.data(), 1, MPI_INT64_T, channel.comm),
        "MPI_Allgather");
  for (int local = 0; local < size(); ++local) {
    const int64_t at = offsets[static_cast<size_t>(channel_rank(local))];
    if (at < 0)
      throw RuntimeError(message("no shared memory is left for rank ", channel_rank(local),
                                 "; close communicators that are not in use"));
    mailboxes_.push_back(reinterpret_cast<Mailbox*>(base(local) + at));
  }
}

int64_t Node::offset(const void* memory, int64_t bytes) const {
  return arena_.offset(memory, bytes).value_or(-1);
}

std::vector<int> Node::ranks_where(const std::function<bool(int local)>& is_meant) const {
  std::vector<int> ranks;
  for (int local = 0; local < size(); ++local)
    if (local != rank_ && is_meant(local)) ranks.push_back(channel_rank(local));
  return ranks;
}

void check_same_call(const Signature& mine, const Signature& theirs, int rank) {
  if (mine == theirs) return;
  throw RuntimeError(message("rank ", rank, " calls ", describe(theirs), ", this rank ",
                             describe(mine), "; the ranks' calls differ in order or size"));
}

}  // namespace cleave::mpi
