// A run before anything is allocated: mesh, this rank's part of the model, strategies and what they
// planned. Pure, so any rank of any world size can be looked at in one process.
#pragma once

#include <vector>

#include "core/model.h"
#include "core/strategies.h"
#include "core/timeline.h"

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
  MicroBatchShape shape;
  Model model;                                ///< units: this rank's; parameters: all
  std::vector<int> chunk_of_unit;             ///< of all units
  std::vector<Parameter*> parameters;         ///< that this rank's units use
  std::vector<std::vector<Action>> schedule;  ///< by pipeline rank
  std::vector<Visit> visits;                  ///< of a step on this rank, in order
  Strategies strategies;
  SolvedPlan plan;

  int num_chunks() const { return chunk_of_unit.back() + 1; }
  int num_stages() const;
  int stage() const;  ///< of this rank
  /// What this rank does in a step.
  const std::vector<Action>& actions() const;

 private:
  void keep_own_units();
  void place_on_ranks();
  void make_schedule();
};

}  // namespace cleave
