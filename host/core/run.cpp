#include "core/run.h"

#include <chrono>
#include <optional>

#include "core/checkpoint_preflight.h"
#include "core/checkpoint_saver.h"
#include "core/export_model.h"
#include "core/gather.h"
#include "core/header.h"
#include "core/layout.h"
#include "core/pipeline_report.h"
#include "core/plan_report.h"
#include "core/planned_run.h"
#include "core/resume.h"
#include "core/sample_log.h"
#include "report/reporter.h"

namespace cleave {

namespace {

constexpr double kMiB = 1024.0 * 1024.0;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

RunFacts run_facts(const TrainerContext& context, const SolvedPlan& plan, int64_t resumed_step) {
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
          static_cast<double>(plan.memory_bytes()) / kMiB,
          resumed_step};
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

// What a run has besides its trainer; each may be absent on a rank, or in a run.
struct Attendants {
  std::optional<Reporter> reporter;
  std::optional<SampleLog> samples;
  std::optional<CheckpointSaver> saver;
  StopSignals* signals;
};

// Whether all steps were run: false after a signal, when what was done is saved.
bool run_steps(Trainer& trainer, int64_t first, int64_t end, Attendants& attendants) {
  bool is_stopped = false;
  for (int64_t step = first; step < end && !is_stopped; ++step) {
    StepRecord record = trainer.train_step(step);
    if (attendants.samples) attendants.samples->write(step + 1);
    if (attendants.saver) {
      is_stopped =
          attendants.saver->after_step(step + 1, attendants.signals && attendants.signals->take());
      record.checkpoint_stall_ms = attendants.saver->stall_ms();
    }
    if (attendants.reporter) attendants.reporter->step(record);
    if (is_stopped && attendants.reporter && step + 1 < end) attendants.reporter->stopped(step + 1);
    is_stopped = is_stopped && step + 1 < end;
  }
  if (attendants.saver) attendants.saver->finish();
  return !is_stopped;
}

}  // namespace

void train(const TrainerContext& context, const SolvedPlan& plan, StopSignals* signals,
           std::ostream& out) {
  const RunConfig& config = context.config;
  std::optional<ModelExport> target;
  if (context.rank == 0 && !config.model.export_folder.empty())
    target.emplace(config, context.model.parameters);
  std::unique_ptr<CheckpointDirectory> directory;
  if (config.checkpoint.is_on()) directory = open_checkpoint_directory(context);
  const auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<CheckpointReader> resume = find_resume_point(context, out);
  const int64_t first = resume ? resume->manifest().step : 0;
  Attendants attendants{{}, {}, {}, signals};
  if (context.rank == 0) {
    attendants.reporter.emplace(config.metrics, run_facts(context, plan, first), out);
    print_plan(out, context.run);
    print_run(out, config, context.dataset, context.communicators);
  }
  if (has_sample_log(context)) attendants.samples.emplace(context, first);
  std::optional<Trace> trace;
  if (config.metrics.trace) trace.emplace(context.rank);
  Trainer trainer(context, trace ? &*trace : nullptr, resume.get());
  if (resume && context.rank == 0)
    out << "checkpoint: read in " << seconds_since(begin) << " s" << std::endl;
  if (config.checkpoint.is_on())
    attendants.saver.emplace(context, trainer.optimizer(), std::move(directory), resume.get(), out);
  resume.reset();
  const bool is_complete = run_steps(trainer, first, config.train.steps, attendants);
  std::optional<Reporter>& reporter = attendants.reporter;
  if (is_complete && !config.model.export_folder.empty()) export_weights(context, target, out);
  if (reporter) reporter->summary();
  if (context.run.num_stages() > 1 && first < config.train.steps) {
    const std::vector<double> unit_ms = trainer.unit_ms();
    if (reporter) print_balance(out, context.run, unit_ms);
  }
  if (trace) trace->write(config.metrics.directory);
  if (attendants.saver) attendants.saver->require_saved();
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
