// Every rank sends its data for block b straight to rank b, which adds them in rank order: two jobs
// for which the ring is worse.
//   whole: each rank gets everything and sums it. Small all_reduce: one message's latency;
//          sends (n-1) S per rank.
//   else:  reduce_scatter of 16-bit floats: the sum is formed in float32 and rounded once, where a
//          ring would round it n-1 times; sends (n-1)/n S per rank, as the ring does.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "scratch.h"
#include "task.h"

namespace cleave::mpi {

struct DirectCall {
  bool whole;
  cleave_dtype dtype;
  cleave_reduction reduction;
  const void* send;
  void* recv;
  std::vector<int64_t> counts;  // of the blocks; whole: the count for every rank
  int tag;
};

class DirectReduce final : public Machine {
 public:
  DirectReduce(std::shared_ptr<Channel> channel, ScratchPool& pool, DirectCall call);
  bool advance() override;
  bool finished() const override;
  std::string waits_for() const override;
  void cancel() noexcept override;
  bool drained() noexcept override;

 private:
  static constexpr int kAhead = 2;  // segments received ahead of the sum

  struct Peer {
    int rank;
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
  int64_t segments_of(int rank) const;
  int64_t elements(int64_t block_elements, int64_t segment) const;
  std::byte* slot(int64_t segment, int rank) const;

  std::shared_ptr<Channel> channel_;
  ScratchPool& pool_;
  DirectCall call_;
  int64_t element_bytes_;
  int64_t segment_elements_;
  int64_t own_offset_ = 0;
  int64_t own_segments_ = 0;
  int64_t reduced_ = 0;  // segments of the own block
  Scratch scratch_;
  std::vector<Peer> peers_;
  std::vector<const void*> sources_;  // one for each rank
};

}  // namespace cleave::mpi
