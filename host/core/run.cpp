#include "core/run.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "cleave/error.h"
#include "core/agreement.h"
#include "core/header.h"
#include "core/layout.h"
#include "core/plan_report.h"
#include "core/released.h"
#include "core/trainer.h"

namespace cleave {

namespace {

// Cores are shared by the ranks of a machine, unless the user said otherwise.
void set_threads(int ranks_here) {
  if (std::getenv("OMP_NUM_THREADS")) return;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  at::set_num_threads(std::max(1, cores / ranks_here));
}

// Each rank scans a part; the smallest index wins, so every layout reports the same token.
void check_tokens(const Dataset& dataset, const RunConfig& config, Comm& world) {
  const int64_t vocab_size = config.model.vocab_size;
  at::Tensor first = at::scalar_tensor(
      -dataset.find_invalid_token(vocab_size, world.rank(), world.size()), at::kLong);
  if (world.size() > 1) world.all_reduce(first, ReduceOp::max).wait_host();
  const int64_t index = -first.item<int64_t>();
  if (index == dataset.num_tokens()) return;
  throw ConfigError(message(config.where("data.path"), ": ", config.data.path.string(), ": token ",
                            dataset.token(index), " at index ", index, " (sample ",
                            index / config.data.sequence_length,
                            ") is not in 0..model.vocab_size - 1 = ", vocab_size - 1,
                            "; use the vocabulary of this data"));
}

RunFacts run_facts(const RunConfig& config, const Mesh& mesh, const Model& model,
                   const SolvedPlan& plan) {
  return {config.train.steps,         config.train.global_batch_size * config.data.sequence_length,
          mesh.world_size(),          model.table.num_elements(),
          plan.wire_bytes_per_step(), static_cast<double>(plan.memory_bytes()) / (1024.0 * 1024.0)};
}

// The effective config without what may differ between machines (where files lie) and what plugins
// declare themselves.
std::string comparable_text(const RunConfig& config) {
  std::istringstream lines(print_run_config(config));
  std::string text, line;
  bool is_plugin_table = false;
  while (std::getline(lines, line)) {
    if (line.starts_with("["))
      is_plugin_table = line.starts_with("[strategy.") || line.starts_with("[communication.");
    if (is_plugin_table || line.starts_with("path") || line.starts_with("directory")) continue;
    text += line.substr(0, line.rfind(" #")) + "\n";
  }
  return text;
}

std::vector<Fingerprint> fingerprints(const TrainerContext& context, const SolvedPlan& plan) {
  std::ostringstream layout;
  print_plan(layout, context.config, context.mesh, context.model, plan);
  std::vector<Fingerprint> all = {
      {"the configuration", fingerprint(comparable_text(context.config))},
      {"the plan", fingerprint(layout.str())},
      {"the number of tokens in data.path", static_cast<uint64_t>(context.dataset.num_tokens())},
      context.communicators.fingerprint()};
  for (const Fingerprint& strategy : context.strategies.fingerprints()) all.push_back(strategy);
  return all;
}

// Everything that needs the other ranks.
void train(const TrainerContext& context, const SolvedPlan& plan, std::ostream& out) {
  const RunConfig& config = context.config;
  check_agreement(context.communicators.world(), fingerprints(context, plan));
  check_tokens(context.dataset, config, context.communicators.world());
  std::optional<Reporter> reporter;
  if (context.rank == 0) {
    reporter.emplace(config.metrics, run_facts(config, context.mesh, context.model, plan), out);
    print_plan(out, config, context.mesh, context.model, plan);
    print_run(out, config, context.dataset, context.communicators);
  }
  std::optional<Trace> trace;
  if (config.metrics.trace) trace.emplace(context.rank);
  Trainer trainer(context, trace ? &*trace : nullptr);
  trainer.train(reporter ? &*reporter : nullptr);
  if (reporter) reporter->summary();
  if (trace) trace->write(config.metrics.directory);
}

}  // namespace

void run_rank(const RunConfig& config, const ProcessInfo& process, const Bootstrap& bootstrap,
              std::ostream& out, const std::function<void()>& on_failure) {
  MemoryAccount memory;
  set_threads(process.local_size);
  std::optional<Communicators> communicators;  // outlives all tensors in its memory

  const Mesh mesh = make_mesh(config, process.world_size);
  Model model(config);
  Strategies strategies(config);
  const SolvedPlan plan = strategies.solve(config, mesh, process.rank, model.unit_infos,
                                           model.parameters, plan_backend(config));
  num_micro_batches(config, mesh);
  const Dataset dataset(open_tokens(config.data.path), config.data);
  communicators.emplace(config, mesh, bootstrap);
  try {
    train(
        {config, mesh, process.rank, at::kCPU, model, dataset, *communicators, strategies, memory},
        plan, out);
  } catch (...) {
    on_failure();
    communicators->abort();  // ranks that wait for this one end now, not at their timeout
    throw;
  }
  strategies.quiesce();
  model.table.clear();
#ifdef CLEAVE_DEV_CHECKS
  check_released(communicators->stats(), memory);
#endif
  communicators->finalize();
}

void run_threads(const RunConfig& config, std::ostream& out) {
  const int world_size = written_mesh_size(config);
  const auto bootstraps = make_thread_bootstraps(world_size);
  std::mutex mutex;
  std::exception_ptr first_error;
  const auto keep_first = [&] {
    std::lock_guard lock(mutex);
    if (!first_error) first_error = std::current_exception();
  };
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    ranks.emplace_back([&, rank] {
      try {
        const ProcessInfo process{rank, world_size, rank, world_size, ""};
        run_rank(config, process, *bootstraps[rank], out, keep_first);
      } catch (...) {
        keep_first();
      }
    });
  ranks.clear();  // joins
  if (first_error) std::rethrow_exception(first_error);
}

void check(const RunConfig& config, int world_size, std::ostream& out) {
  const Mesh mesh = make_mesh(config, world_size > 0 ? world_size : written_mesh_size(config));
  Model model(config);
  Strategies strategies(config);
  const SolvedPlan plan =
      strategies.solve(config, mesh, 0, model.unit_infos, model.parameters, plan_backend(config));
  const Dataset dataset(open_tokens(config.data.path), config.data);
  print_plan(out, config, mesh, model, plan);
  print_layout(out, mesh, model, plan);
}

}  // namespace cleave
