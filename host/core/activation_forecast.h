// How many bytes of activations a run will hold, before anything is allocated.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cleave/schedule.h"
#include "cleave/strategy.h"
#include "core/unit.h"

namespace cleave {

struct ActivationForecast {
  /// The most while a unit of the only micro-batch runs.
  struct OfUnit {
    int64_t forward;
    int64_t backward;
  };
  int64_t kept_bytes;     ///< the most between two actions, of all micro-batches
  int64_t peak_bytes;     ///< the most, with what a unit needs while it runs
  std::string peak_unit;  ///< the unit that runs then
  /// By unit index; empty where several micro-batches are alive, or backward runs in halves.
  std::map<int, OfUnit> of_units;
};

/// Of a rank's `actions` in a step: runs each chunk of `units` once forward and once backward, on
/// tensors without content (the same result on every machine), and adds up what the actions leave
/// open. `units` must have their placements, chunks and recompute flags.
ActivationForecast forecast_activations(const std::vector<std::unique_ptr<Unit>>& units,
                                        const MicroBatchShape& shape,
                                        std::span<const Action> actions);

}  // namespace cleave
