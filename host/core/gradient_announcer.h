// Tells the reducer of each gradient as soon as it is complete, also in the midst of a unit's
// backward, and always in the order that all ranks share.
#pragma once

#include <cstdint>
#include <vector>

#include "cleave/roles.h"
#include "cleave/weight_gradient.h"

namespace cleave {

class GradientAnnouncer final : public GradientListener {
 public:
  /// `reducer`: nullptr where no strategy reduces; outlives this, as the parameters do.
  /// `micro_batches`: of a step. `is_early`: false where autograd runs backward on another thread
  /// than the rank's main one, on which strategies are called: on a GPU. Then gradients are
  /// announced after the unit.
  GradientAnnouncer(const std::vector<Parameter*>& backward_order, size_t num_units,
                    int64_t micro_batches, GradientReducer* reducer, bool is_early);

  void begin_step();
  /// Before a backward of the unit that adds to gradients.
  void before(const UnitInfo& unit);
  void complete(Parameter& parameter) override;
  /// After it: all its gradients are complete. Every parameter is announced, used or not, so that a
  /// bucket never waits for one that got no gradient.
  void after(int unit);

 private:
  void announce_next();

  GradientReducer* reducer_;
  int64_t micro_batches_;
  bool is_early_;
  std::vector<std::vector<Parameter*>> ready_after_;  // by unit: those whose last use it is
  std::vector<int64_t> done_;                         // micro-batches of this step, by unit
  int unit_ = -1;                                     // whose backward runs
  size_t num_announced_ = 0;                          // of it
  std::vector<char> is_complete_;                     // by Parameter::index
};

}  // namespace cleave
