#include "support/tiny_run.h"

#include <ATen/ATen.h>

#include <cstring>
#include <fstream>

namespace cleave::test {

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
  std::vector<RunResult> results(ranks);
  run_as_threads(ranks, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                            const std::function<void()>& on_failure) {
    results[process.rank] = run_captured(config, process, bootstrap, on_failure);
  });
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
         (x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}

}  // namespace cleave::test
