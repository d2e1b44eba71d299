// Writes each unit's run into the trace.
#pragma once

#include <string>
#include <vector>

#include "cleave/strategy.h"
#include "report/trace.h"

namespace cleave {

class TraceObserver final : public UnitObserver {
 public:
  explicit TraceObserver(Trace& trace) : trace_(trace) {}
  void before_unit(const UnitInfo&, int, Phase) override { begins_.push_back(Trace::Clock::now()); }
  void after_unit(const UnitInfo& unit, int micro_batch, Phase phase) override;

 private:
  Trace& trace_;
  std::vector<Trace::Clock::time_point> begins_;  // units may nest (recompute inside backward)
};

}  // namespace cleave
