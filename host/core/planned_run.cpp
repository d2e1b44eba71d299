#include "core/planned_run.h"

#include "core/communicators.h"
#include "core/layout.h"

namespace cleave {

namespace {

// Each micro-batch's forward, then its backward.
std::vector<Visit> visits_of_step(const std::vector<UnitInfo>& units, int64_t num_micro_batches) {
  std::vector<Visit> visits;
  for (int m = 0; m < num_micro_batches; ++m) {
    for (const UnitInfo& unit : units) visits.push_back({&unit, m, Phase::forward});
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit)
      visits.push_back({&*unit, m, Phase::backward});
  }
  return visits;
}

}  // namespace

PlannedRun::PlannedRun(const RunConfig& run_config, int world_size, int run_rank)
    : config(run_config),
      rank(run_rank),
      mesh(make_mesh(config, world_size)),
      num_micro_batches(cleave::num_micro_batches(config, mesh)),
      model(config),
      visits(visits_of_step(model.unit_infos, num_micro_batches)),
      strategies(config) {
  plan = strategies.solve(
      {config,
       mesh,
       rank,
       model.unit_infos,
       model.parameters,
       visits,
       num_micro_batches,
       {config.train.micro_batch_size, config.data.sequence_length, config.model.hidden_size}},
      plan_backend(config));
  for (size_t i = 0; i < model.units.size(); ++i) model.units[i]->info = model.unit_infos[i];
}

}  // namespace cleave
