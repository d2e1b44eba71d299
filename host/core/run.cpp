#include "core/run.h"

#include <optional>

#include "core/export_model.h"
#include "core/header.h"
#include "core/layout.h"
#include "core/plan_report.h"

namespace cleave {

namespace {

RunFacts run_facts(const TrainerContext& context, const SolvedPlan& plan) {
  const RunConfig& config = context.config;
  return {config.train.steps,         config.train.global_batch_size * config.data.sequence_length,
          context.mesh.world_size(),  context.model.table.num_elements(),
          plan.wire_bytes_per_step(), static_cast<double>(plan.memory_bytes()) / (1024.0 * 1024.0)};
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
    print_plan(out, config, context.mesh, context.model, plan);
    print_run(out, config, context.dataset, context.communicators);
  }
  std::optional<Trace> trace;
  if (config.metrics.trace) trace.emplace(context.rank);
  Trainer trainer(context, trace ? &*trace : nullptr);
  trainer.train(reporter ? &*reporter : nullptr);
  if (target) target->write([](const Parameter& parameter) { return parameter.master; }, out);
  if (reporter) reporter->summary();
  if (trace) trace->write(config.metrics.directory);
}

void check(const RunConfig& config, int world_size, std::ostream& out) {
  const Mesh mesh = make_mesh(config, world_size > 0 ? world_size : written_mesh_size(config));
  num_micro_batches(config, mesh);  // refused before anything is printed
  Model model(config);
  check_tied_head(model);
  Strategies strategies(config);
  const SolvedPlan plan =
      strategies.solve(config, mesh, 0, model.unit_infos, model.parameters, plan_backend(config));
  const Dataset dataset(open_tokens(config.data.path), config.data);
  print_plan(out, config, mesh, model, plan);
  print_layout(out, mesh, model, plan);
}

}  // namespace cleave
