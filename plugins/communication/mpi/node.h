// The ranks of a communicator that share memory with this one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "channel.h"
#include "mailbox.h"
#include "neighbours.h"

namespace cleave::mpi {

class Node {
 public:
  /// Collective over the channel. `ranks`: the channel's ranks on this machine, ascending, at least
  /// two; `bases`: where their arenas begin here.
  Node(const Channel& channel, Arena& arena, std::vector<int> ranks, std::vector<std::byte*> bases);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// In the channel.
  int channel_rank(int local) const { return ranks_[static_cast<size_t>(local)]; }
  Mailbox& mailbox(int local) const { return *mailboxes_[static_cast<size_t>(local)]; }
  std::byte* base(int local) const { return bases_[static_cast<size_t>(local)]; }
  /// The other ranks, as the channel numbers them, for which that is so.
  std::vector<int> ranks_where(const std::function<bool(int local)>& is_meant) const;
  /// In this rank's arena, or -1.
  int64_t offset(const void* memory, int64_t bytes) const;

  uint64_t next_small() { return ++num_small_; }
  uint64_t next_large() { return ++num_large_; }

 private:
  Arena& arena_;
  std::vector<int> ranks_;
  std::vector<std::byte*> bases_;
  int rank_ = 0;
  std::vector<Mailbox*> mailboxes_;
  uint64_t num_small_ = 0;
  uint64_t num_large_ = 0;
};

/// Throws unless `theirs`, of a channel's rank, is `mine`.
void check_same_call(const Signature& mine, const Signature& theirs, int rank);

}  // namespace cleave::mpi
