#include "trace_spans.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cleave/error.h"
#include "core/run.h"

namespace cleave::test {

namespace {

std::vector<TraceSpan> read(const std::filesystem::path& file) {
  std::ifstream in(file);
  const nlohmann::json trace = nlohmann::json::parse(in);
  std::vector<TraceSpan> spans;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const double begin = event["ts"];
    spans.push_back({event["name"], begin, begin + event["dur"].get<double>()});
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const TraceSpan& a, const TraceSpan& b) { return a.begin < b.begin; });
  return spans;
}

}  // namespace

std::vector<std::vector<TraceSpan>> train_traced(RunConfig config, int ranks) {
  config.metrics.trace = true;
  run_as_threads(ranks, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                            const std::function<void()>& on_failure) {
    run_as_rank(config, process, bootstrap, on_failure,
                [](const TrainerContext& context, const SolvedPlan& plan) {
                  std::ostringstream out;
                  train(context, plan, /*signals=*/nullptr, out);
                });
  });
  std::vector<std::vector<TraceSpan>> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(read(config.metrics.directory / message("trace.rank", rank, ".json")));
  return all;
}

}  // namespace cleave::test
