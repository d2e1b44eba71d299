// Every rank sends its data for block b straight to rank b, which adds them: jobs for which the
// ring is worse, since its order differs from block to block.
//   whole: each rank gets everything and sums it. Small all_reduce: one message's latency;
//          sends (n-1) S per rank.
//   else:  reduce_scatter of 16-bit floats: the sum is formed in float32 and rounded once, where a
//          ring would round it n-1 times; sends (n-1)/n S per rank, as the ring does. Deterministic
//          sums of all types.
// Sums are in rank order; where the group's ranks share machines each machine's first, then the
// machines' sums, as two levels add (stages.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "group.h"
#include "scratch.h"
#include "task.h"

namespace cleave::mpi {

struct DirectCall {
  bool whole;
  cleave_dtype dtype;   // of send
  cleave_dtype result;  // of recv: the same, or 16-bit floats of float32
  cleave_reduction reduction;
  const void* send;
  void* recv;
  std::vector<int64_t> counts;  // of the blocks; whole: the count for every rank
  int tag;
  std::vector<std::vector<int>> parts =
      {};  // places whose sums are formed first; none: all at once
  std::shared_ptr<Scratch> keeps = nullptr;  // where `send` is, unless it is the caller's
};

class DirectReduce final : public Machine {
 public:
  DirectReduce(std::shared_ptr<Channel> channel, Group group, DirectCall call);
  bool advance() override;
  bool finished() const override;
  std::vector<int> waits_for() const override;
  void cancel() noexcept override;
  bool drained() noexcept override;

 private:
  static constexpr int kAhead = 2;  // segments received ahead of the sum

  struct Peer {
    int place;         // in the group
    int rank;          // in the channel
    int64_t offset;    // of its block in `send`, elements
    int64_t segments;  // of its block
    int64_t sends_posted = 0;
    int64_t sends_done = 0;
    int64_t receives_posted = 0;
    int64_t receives_done = 0;
    Window sends{4};
    Window receives{kAhead};
  };

  bool collect(Peer& peer);
  bool post(Peer& peer);
  bool may_reduce() const;
  void reduce_segment();
  void sum_parts(int64_t elements);
  int64_t segments_of(int place) const;
  int64_t elements(int64_t block_elements, int64_t segment) const;
  std::byte* slot(int64_t segment, int place) const;
  std::byte* part_sum(size_t part) const;

  std::shared_ptr<Channel> channel_;
  Group group_;
  DirectCall call_;
  int64_t element_bytes_;
  int64_t segment_elements_;
  cleave_dtype part_dtype_;  // of the parts' sums: not yet rounded
  int64_t own_offset_ = 0;
  int64_t own_segments_ = 0;
  int64_t reduced_ = 0;  // segments of the own block
  Scratch scratch_;
  std::vector<Peer> peers_;
  std::vector<const void*> sources_;  // one for each place
  std::vector<const void*> members_;  // of a part
  std::vector<const void*> sums_;     // of the parts
};

}  // namespace cleave::mpi
