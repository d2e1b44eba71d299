// Recursive halving and doubling (Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective
// Communication Operations in MPICH", 2.4 and 2.2) for 2^k ranks: reduce-scatter by exchanging half
// of what is left with partners at distances n/2, n/4, .., 1, all-gather the other way round.
// log2 n messages and (n-1)/n S bytes sent per rank for each of the two, so it beats a ring where
// latency counts; partners may be far away, so it does not where links are shared.
//
// Sums: a rank adds what it receives to its own, lower half of the ranks first.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "group.h"
#include "ring.h"
#include "scratch.h"
#include "task.h"

namespace cleave::mpi {

class Halving final : public Machine {
 public:
  /// 2^k ranks, blocks without gaps between them. 16-bit floats would be rounded k times.
  Halving(std::shared_ptr<Channel> channel, Group group, RingCall call);
  bool advance() override;
  bool finished() const override { return step_ == end_ && requests_.empty(); }
  std::vector<int> waits_for() const override;
  void cancel() noexcept override { requests_.cancel(); }
  bool drained() noexcept override { return requests_.drained(); }

 private:
  /// Blocks [first, last) of the group.
  struct Range {
    int first;
    int last;
  };
  int distance(int step) const;
  bool is_reducing(int step) const { return call_.reduces && step < num_halvings_; }
  Range range_of(int place, int distance) const;
  int64_t elements(const Range& range) const;
  std::byte* data(const Range& range) const;
  void prepare();
  void post();
  void absorb();

  std::shared_ptr<Channel> channel_;
  Group group_;
  RingCall call_;
  int num_halvings_;  // log2 of the ranks
  int step_ = 0;
  int end_;
  int64_t element_bytes_;
  bool started_ = false;
  Scratch whole_;     // all blocks, where the caller's buffer holds this rank's alone
  Scratch received_;  // half of them
  Window requests_{2};
};

}  // namespace cleave::mpi
