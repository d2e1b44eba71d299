#include "core/run.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

#include "cleave/error.h"
#include "core/header.h"
#include "core/layout.h"
#include "core/trainer.h"
#include "process/plugin_loader.h"

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
  return {config.train.steps,       config.train.global_batch_size * config.data.sequence_length,
          mesh.world_size(),        model.table.num_elements(),
          plan.wire_bytes_per_step, static_cast<double>(plan.memory_bytes()) / (1024.0 * 1024.0)};
}

// Everything that needs the other ranks.
void train(const TrainerContext& context, const SolvedPlan& plan, std::ostream& out) {
  const RunConfig& config = context.config;
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
              std::ostream& out) {
  MemoryAccount memory;
  set_threads(process.local_size);
  std::optional<Communicators> communicators;  // outlives all tensors in its memory

  const Mesh mesh = make_mesh(config, process.world_size);
  Model model(config);
  Strategies strategies(config);
  const SolvedPlan plan =
      strategies.solve(config, mesh, process.rank, model.unit_infos, model.parameters);
  num_micro_batches(config, mesh);
  const Dataset dataset(open_tokens(config.data.path), config.data);
  communicators.emplace(config, mesh, bootstrap);
  try {
    train(
        {config, mesh, process.rank, at::kCPU, model, dataset, *communicators, strategies, memory},
        plan, out);
  } catch (...) {
    communicators->abort();  // ranks that wait for this one end now, not at their timeout
    throw;
  }
  strategies.quiesce();
  model.table.clear();
  communicators->finalize();
}

void run_threads(const RunConfig& config, std::ostream& out) {
  const int world_size = written_mesh_size(config);
  const auto bootstraps = make_thread_bootstraps(world_size);
  std::mutex mutex;
  std::exception_ptr first_error;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    ranks.emplace_back([&, rank] {
      try {
        const ProcessInfo process{rank, world_size, rank, world_size, ""};
        run_rank(config, process, *bootstraps[rank], out);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!first_error) first_error = std::current_exception();
      }
    });
  ranks.clear();  // joins
  if (first_error) std::rethrow_exception(first_error);
}

void check(const RunConfig& config, int world_size, std::ostream& out) {
  const Mesh mesh = make_mesh(config, world_size > 0 ? world_size : written_mesh_size(config));
  Model model(config);
  Strategies strategies(config);
  const PluginTable& backend = config.communication.backend;
  const LoadedPlugin plugin = load_plugin(CLEAVE_COMMUNICATION, backend.name, backend.origin);
  OptionValues("communication." + backend.name, plugin.descriptor->options,
               plugin.descriptor->num_options, backend);
  const SolvedPlan plan = strategies.solve(config, mesh, 0, model.unit_infos, model.parameters);
  const Dataset dataset(open_tokens(config.data.path), config.data);
  print_plan(out, config, mesh, model, plan);
}

}  // namespace cleave
