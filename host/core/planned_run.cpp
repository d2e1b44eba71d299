#include "core/planned_run.h"

#include "core/communicators.h"
#include "core/layout.h"
#include "core/memory_plan.h"

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

void append(std::vector<MemoryItem>& items, const std::vector<MemoryItem>& more) {
  items.insert(items.end(), more.begin(), more.end());
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
  const MicroBatchShape shape{config.train.micro_batch_size, config.data.sequence_length,
                              config.model.hidden_size};
  plan = strategies.solve(
      {config, mesh, rank, model.unit_infos, model.parameters, visits, num_micro_batches, shape},
      plan_backend(config));
  for (size_t i = 0; i < model.units.size(); ++i) model.units[i]->info = model.unit_infos[i];
  // each micro-batch's backward follows its forward
  const int micro_batches_alive = 1;
  append(plan.memory, activation_memory(model.units, shape, micro_batches_alive));
  append(plan.memory, batch_memory(shape, num_micro_batches, config.data.ignore_token.has_value()));
}

}  // namespace cleave
