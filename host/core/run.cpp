#include "core/run.h"

#include <optional>

#include "core/export_model.h"
#include "core/gather.h"
#include "core/header.h"
#include "core/layout.h"
#include "core/pipeline_report.h"
#include "core/plan_report.h"
#include "core/planned_run.h"

namespace cleave {

namespace {

constexpr double kMiB = 1024.0 * 1024.0;

RunFacts run_facts(const TrainerContext& context, const SolvedPlan& plan) {
  const RunConfig& config = context.config;
  std::vector<PredictedMemory> memory;
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    memory.push_back(
        {to_string(category), static_cast<double>(plan.memory_bytes(category)) / kMiB});
  }
  return {config.train.steps,
          config.train.global_batch_size * config.data.sequence_length,
          context.mesh.world_size(),
          context.model.table.num_elements(),
          plan.wire_bytes_per_step(),
          std::move(memory),
          static_cast<double>(plan.memory_bytes()) / kMiB};
}

// Every rank takes part in bringing each tensor together; rank 0 writes.
void export_weights(const TrainerContext& context, const std::optional<ModelExport>& target,
                    std::ostream& out) {
  const auto whole = [&](const Parameter& parameter) {
    return gather_whole(parameter, parameter.state_placement, parameter.master, context.mesh,
                        context.communicators.world());
  };
  if (target)
    target->write(whole, out);
  else
    for (const Parameter* parameter : context.model.parameters) whole(*parameter);
}

}  // namespace

void train(const TrainerContext& context, const SolvedPlan& plan, std::ostream& out) {
  const RunConfig& config = context.config;
  std::optional<ModelExport> target;
  if (context.rank == 0 && !config.model.export_folder.empty())
    target.emplace(config, context.model.parameters);
  std::optional<Reporter> reporter;
  if (context.rank == 0) {
    reporter.emplace(config.metrics, run_facts(context, plan), out);
    print_plan(out, context.run);
    print_run(out, config, context.dataset, context.communicators);
  }
  std::optional<Trace> trace;
  if (config.metrics.trace) trace.emplace(context.rank);
  Trainer trainer(context, trace ? &*trace : nullptr);
  trainer.train(reporter ? &*reporter : nullptr);
  if (!config.model.export_folder.empty()) export_weights(context, target, out);
  if (reporter) reporter->summary();
  if (context.run.num_stages() > 1) {
    const std::vector<double> unit_ms = trainer.unit_ms();
    if (reporter) print_balance(out, context.run, unit_ms);
  }
  if (trace) trace->write(config.metrics.directory);
}

void check(const RunConfig& config, int world_size, const std::filesystem::path& schedule_picture,
           std::ostream& out) {
  PlannedRun run(config, world_size > 0 ? world_size : written_mesh_size(config), 0);
  check_tied_head(run.model);
  const Dataset dataset(open_tokens(config.data.path), config.data);
  print_plan(out, run);
  print_layout(out, run.mesh, run.model, run.plan);
  print_pipeline(out, run, schedule_picture);
}

}  // namespace cleave
