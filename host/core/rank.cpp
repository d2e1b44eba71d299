#include "core/rank.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "cleave/error.h"
#include "core/device.h"
#include "core/memory_failure.h"
#include "core/planned_run.h"
#include "core/released.h"

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

// Each rank compares a part; all of them learn of the first difference.
void check_tied_head(const WeightFolder& weights, Comm& world) {
  const auto mine = weights.find_untied(world.rank(), world.size());
  at::Tensor first = at::scalar_tensor(-mine.value_or(INT64_MAX), at::kLong);
  if (world.size() > 1) world.all_reduce(first, ReduceOp::max).wait_host();
  const int64_t element = -first.item<int64_t>();
  if (element != INT64_MAX) weights.refuse_untied(message("at element ", element));
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
    if (is_plugin_table || line.starts_with("path") || line.starts_with("directory") ||
        line.starts_with("export ="))
      continue;
    text += line.substr(0, line.rfind(" #")) + "\n";
  }
  return text;
}

std::vector<Fingerprint> fingerprints(const TrainerContext& context, const SolvedPlan& plan) {
  std::string layout = context.mesh.to_string();
  for (const std::string& name : plan.order) layout += " " + name;
  std::vector<Fingerprint> all = {
      {"the configuration", fingerprint(comparable_text(context.config))},
      {"the layout", fingerprint(layout)},
      {"the number of tokens in data.path", static_cast<uint64_t>(context.dataset.num_tokens())},
      context.communicators.fingerprint()};
  if (const auto& weights = context.model.weights)
    all.push_back({"the tensors in model.path", fingerprint(weights->description())});
  for (const Fingerprint& strategy : context.strategies.fingerprints()) all.push_back(strategy);
  return all;
}

}  // namespace

void run_as_rank(const RunConfig& given, const ProcessInfo& process, const Bootstrap& bootstrap,
                 const std::function<void()>& on_failure, const RankBody& body) {
  MemoryAccount memory;
  set_threads(process.local_size);
  RunConfig config = given;
  const at::Device device = open_device(config, plan_backend(config), process);
  std::optional<Communicators> communicators;  // outlives all tensors in its memory

  PlannedRun run(config, process.world_size, process.rank);
  Model& model = run.model;
  Strategies& strategies = run.strategies;
  const Dataset dataset(open_tokens(config.data.path), config.data);
  communicators.emplace(config, run.mesh, bootstrap);
  const TrainerContext context{config,         run.mesh, process.rank,   device,     model,
                               run.parameters, dataset,  *communicators, strategies, run,
                               memory,         {}};
  try {
    check_agreement(communicators->control(), fingerprints(context, run.plan));
    check_tokens(dataset, config, communicators->control());
    if (model.weights) check_tied_head(*model.weights, communicators->control());
    explain_failed_allocation(process.rank, run.plan, memory, [&] { body(context, run.plan); });
  } catch (...) {
    on_failure();
    communicators->abort();  // ranks that wait for this one end now, not at their timeout
    throw;
  }
  strategies.quiesce();
  model.table.clear();
  communicators->wait_for_released();
  check_released(communicators->stats(), memory);
  communicators->finalize();
  strategies.destroy();
}

void run_as_threads(int world_size, const std::function<void(const ProcessInfo&, const Bootstrap&,
                                                             const std::function<void()>&)>& rank) {
  const auto bootstraps = make_thread_bootstraps(world_size);
  std::mutex mutex;
  std::exception_ptr first_error;
  const auto keep_first = [&] {
    std::lock_guard lock(mutex);
    if (!first_error) first_error = std::current_exception();
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < world_size; ++i)
    threads.emplace_back([&, i] {
      try {
        rank({i, world_size, i, world_size, ""}, *bootstraps[i], keep_first);
      } catch (...) {
        keep_first();
      }
    });
  threads.clear();  // joins
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace cleave
