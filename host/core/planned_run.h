// A run before anything is allocated: mesh, model, strategies and what they planned. Pure, so any
// rank of any world size can be looked at in one process.
#pragma once

#include <vector>

#include "core/model.h"
#include "core/strategies.h"

namespace cleave {

struct PlannedRun {
  /// ConfigError when mesh, batch, strategies or backend don't fit together. `config` outlives it.
  PlannedRun(const RunConfig& config, int world_size, int rank);
  PlannedRun(const PlannedRun&) = delete;
  PlannedRun& operator=(const PlannedRun&) = delete;

  const RunConfig& config;
  int rank;
  Mesh mesh;
  int64_t num_micro_batches;
  Model model;
  std::vector<Visit> visits;  ///< of a step, in order
  Strategies strategies;
  SolvedPlan plan;
};

}  // namespace cleave
