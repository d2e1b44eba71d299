// How long each unit runs, all phases together.
#pragma once

#include <chrono>
#include <vector>

#include "cleave/roles.h"

namespace cleave {

class UnitTimer final : public UnitObserver {
 public:
  explicit UnitTimer(size_t num_units) : ms_(num_units, 0.0) {}
  void before_unit(const UnitInfo&, int, Phase) override { begin_ = Clock::now(); }
  void after_unit(const UnitInfo& unit, int, Phase) override {
    ms_[unit.index] += std::chrono::duration<double, std::milli>(Clock::now() - begin_).count();
  }
  /// By unit index, since the start; 0 for units of other ranks.
  const std::vector<double>& ms() const { return ms_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<double> ms_;
  Clock::time_point begin_;
};

}  // namespace cleave
