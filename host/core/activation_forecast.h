// How many bytes of activations a run will hold, before anything is allocated.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cleave/strategy.h"
#include "core/unit.h"

namespace cleave {

struct ActivationForecast {
  /// The most while a unit of the only micro-batch runs.
  struct OfUnit {
    int64_t forward;
    int64_t backward;
  };
  int64_t kept_bytes;     ///< of all micro-batches that are alive, between forward and backward
  int64_t peak_bytes;     ///< of these, and of what a unit needs while it runs
  std::string peak_unit;  ///< the unit that runs then
  /// By unit index; empty where several micro-batches are alive.
  std::map<int, OfUnit> of_units;
};

/// Walks the units forward and backward with as many micro-batches alive at a time, on tensors
/// without content: the same result on every machine. `units` must have their placements and
/// recompute flags.
ActivationForecast forecast_activations(const std::vector<std::unique_ptr<Unit>>& units,
                                        const MicroBatchShape& shape, int micro_batches_alive);

}  // namespace cleave
