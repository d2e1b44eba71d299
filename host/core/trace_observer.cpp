#include "core/trace_observer.h"

namespace cleave {

void TraceObserver::after_unit(const UnitInfo& unit, int micro_batch, Phase phase) {
  static constexpr const char* kPhases[] = {"forward", "recompute", "backward", "weight"};
  trace_.span("compute",
              std::string(kPhases[static_cast<int>(phase)]) + " " + unit.name + " #" +
                  std::to_string(micro_batch),
              begins_.back(), Trace::Clock::now());
  begins_.pop_back();
}

}  // namespace cleave
