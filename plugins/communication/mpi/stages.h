// What each algorithm does, one state machine after the other.
#pragma once

#include <memory>
#include <vector>

#include "algorithm.h"
#include "call.h"
#include "direct_reduce.h"
#include "ring.h"
#include "scratch.h"
#include "shared_small.h"
#include "task.h"
#include "topology.h"

namespace cleave::mpi {

/// Of one communicator.
class StageMaker {
 public:
  StageMaker(std::shared_ptr<Channel> channel, std::shared_ptr<const Topology> topology);

  int rank() const { return channel_->rank; }
  /// Whether a shared-memory operation fits into the small lanes.
  bool is_small(const Call& call) const;
  /// `tag`: of this operation alone.
  Stages make(const Call& call, Algorithm algorithm, int tag) const;

 private:
  Stages shared(const Call& call) const;
  Stages direct(const Call& call, int tag) const;
  Stages ring(const Call& call, int tag) const;
  Stages halving(const Call& call, int tag) const;
  Stages direct_then_ring(const Call& call, int tag) const;
  Stages two_level(const Call& call, Algorithm algorithm, int tag) const;
  void two_level_all_reduce(const Call& call, Algorithm algorithm, int tag, Stages& stages) const;
  void two_level_reduce_scatter(const Call& call, Algorithm algorithm, int tag,
                                Stages& stages) const;
  void two_level_all_gather(const Call& call, int tag, Stages& stages) const;
  std::unique_ptr<Machine> direct_gather(const Call& call, int tag) const;
  std::unique_ptr<Machine> all_to_all(const Call& call, int tag) const;

  /// Over this rank's place on each machine, by a ring or direct sums. rounded_levels: `ring.send`
  /// is float32.
  void reduce_across(RingCall ring, Algorithm algorithm, Stages& stages) const;
  std::shared_ptr<Scratch> scratch(int64_t bytes) const;
  /// Direct sums over the whole communicator.
  std::unique_ptr<Machine> direct_reduce(DirectCall call) const;

  /// Blocks of the whole communicator as the group's places have them.
  RingCall blocks_by_place(const Call& call, const Group& group, int tag) const;

  std::shared_ptr<Channel> channel_;
  std::shared_ptr<const Topology> topology_;
  Group by_rank_;
  std::vector<std::vector<int>> ranks_of_machines_;  // where there are levels
};

}  // namespace cleave::mpi
