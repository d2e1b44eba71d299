// Small collectives of ranks that share memory: each rank puts its data into its mailbox, then
// reads the others'. One copy in, one pass to read; sums are formed in rank order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "node.h"
#include "shared_call.h"
#include "task.h"

namespace cleave::mpi {

class SharedSmall final : public Machine {
 public:
  /// Barrier, all_reduce, reduce_scatter, all_gather, broadcast, all_to_all with equal blocks; each
  /// rank's data fit into SmallLane::kBytes.
  SharedSmall(std::shared_ptr<Node> node, SharedCall call);
  bool advance() override;
  bool finished() const override { return stage_ == Stage::finished; }
  std::vector<int> waits_for() const override;
  void cancel() noexcept override {}
  bool drained() noexcept override { return true; }

 private:
  enum class Stage { waiting_for_lane, waiting_for_data, finished };

  SmallLane& lane(int local) const;
  bool lane_is_free() const;
  bool all_are_ready();
  int64_t offset_of(int local) const;
  void put();
  void reduce(int64_t offset, int64_t elements);
  void read();

  std::shared_ptr<Node> node_;
  SharedCall call_;
  int64_t element_bytes_;
  uint64_t number_;
  Stage stage_ = Stage::waiting_for_lane;
  int num_ready_ = 0;
};

}  // namespace cleave::mpi
