#include "support/tiny_run.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>

#include "core/layout.h"
#include "core/released.h"
#include "core/trainer.h"
#include "process/process.h"

namespace cleave::test {

namespace {

std::map<std::string, at::Tensor> copy(const std::vector<Parameter*>& parameters,
                                       at::Tensor Parameter::*member) {
  std::map<std::string, at::Tensor> copies;
  for (Parameter* parameter : parameters) copies[parameter->name] = (parameter->*member).clone();
  return copies;
}

RunResult run_rank(const RunConfig& config, const Mesh& mesh, int rank, const Bootstrap& bootstrap,
                   const std::function<void()>& on_failure) {
  MemoryAccount memory;
  at::set_num_threads(1);
  Communicators communicators(config, mesh, bootstrap);
  Model model(config);
  Strategies strategies(config);
  RunResult result;
  try {
    strategies.solve(config, mesh, rank, model.unit_infos, model.parameters, plan_backend(config));
    const Dataset dataset(open_tokens(config.data.path), config.data);
    Trainer trainer(
        {config, mesh, rank, at::kCPU, model, dataset, communicators, strategies, memory}, nullptr);
    result.initial_weights = copy(model.parameters, &Parameter::value);
    for (int64_t step = 0; step < config.train.steps; ++step) {
      result.records.push_back(trainer.train_step(step));
      if (step > 0) continue;
      result.first_gradients = copy(model.parameters, &Parameter::gradient);
      // the fused optimizer leaves clipped gradients behind
      const double norm = result.records[0].grad_norm, clip = config.optimizer.clip_norm;
      if (clip != 0 && clip < norm)
        for (auto& [name, gradient] : result.first_gradients) gradient.mul_((norm + 1e-6) / clip);
    }
    result.final_weights = copy(model.parameters, &Parameter::value);
  } catch (...) {
    on_failure();
    communicators.abort();
    throw;
  }
  strategies.quiesce();
  model.table.clear();
  check_released(communicators.stats(), memory);
  communicators.finalize();
  return result;
}

}  // namespace

RunConfig tiny_config(const TemporaryFolder& folder) {
  RunConfig config;
  config.file = "tiny.toml";
  config.model = {"qwen2", 97, 32, 56, 5, 4, 2, 8, 10000.0, 1e-6, 0.2, true, false};
  config.data = {folder.path() / "tiny.txt", 16, true, 7, 5};
  std::ofstream text(config.data.path, std::ios::binary);
  uint64_t state = 1;
  for (int i = 0; i < 4000; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const int token = static_cast<int>((state >> 33) % 97);
    // long runs of the ignored token 5 make the counts of ranks and micro-batches uneven
    text.put(static_cast<char>(i / 40 % 3 == 0 && token % 4 != 0 ? 5 : token));
  }
  config.train = {3, 12, 2, 11, "float32"};
  config.optimizer = {1e-2, 1e-3, "cosine", 2, 10, 0.9, 0.95, 1e-2, 0.1, 1.0};
  config.communication = {{"local", {"tiny.toml"}, {}}, 60};
  config.strategies = {{"ddp", {"tiny.toml"}, {}}};
  config.metrics = {folder.path() / "metrics", 1, false, false};
  return config;
}

std::vector<RunResult> run_ranks(RunConfig config, int ranks) {
  const Mesh mesh = make_mesh(config, ranks);
  const auto bootstraps = make_thread_bootstraps(ranks);
  std::vector<RunResult> results(ranks);
  std::mutex mutex;
  std::exception_ptr error;
  const auto keep_first = [&] {
    std::lock_guard lock(mutex);
    if (!error) error = std::current_exception();
  };
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        results[rank] = run_rank(config, mesh, rank, *bootstraps[rank], keep_first);
      } catch (...) {
        keep_first();
      }
    });
  threads.clear();
  if (error) std::rethrow_exception(error);
  return results;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor a64 = a.to(at::kDouble), b64 = b.to(at::kDouble);
  const double norm = b64.norm().item<double>(), difference = (a64 - b64).norm().item<double>();
  return difference == 0 ? 0 : difference / norm;
}

bool bitwise_equal(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace cleave::test
