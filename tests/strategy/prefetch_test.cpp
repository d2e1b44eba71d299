// The trace of a sharded run shows the gather of the next unit under the run of this one.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/planned_run.h"
#include "core/run.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

struct Span {
  double begin;
  double end;
};

struct Spans {
  std::vector<Span> runs;     // of units, forward and backward
  std::vector<Span> gathers;  // of single parameters
};

// Of one rank, each in order of begin.
Spans read_trace(const std::filesystem::path& file) {
  std::ifstream in(file);
  const nlohmann::json trace = nlohmann::json::parse(in);
  Spans spans;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::string name = event["name"];
    const double begin = event["ts"];
    const Span span{begin, begin + event["dur"].get<double>()};
    if (name.starts_with("forward ") || name.starts_with("backward ")) spans.runs.push_back(span);
    if (name == "data.all_gather") spans.gathers.push_back(span);
  }
  const auto by_begin = [](const Span& a, const Span& b) { return a.begin < b.begin; };
  std::sort(spans.runs.begin(), spans.runs.end(), by_begin);
  std::sort(spans.gathers.begin(), spans.gathers.end(), by_begin);
  return spans;
}

RunConfig config_of(const test::TemporaryFolder& folder, const char* prefetch_units) {
  RunConfig config = test::tiny_config(folder);
  config.train.steps = 2;
  config.metrics.trace = true;
  config.strategies = {test::strategy("fsdp", {{"prefetch_units", prefetch_units}})};
  return config;
}

// A run of a unit whose parameters were gathered for it.
struct GatheredRun {
  Span submitted;        // the first and the last of its gathers
  Span previous;         // the run before
  Span before_previous;  // and the one before that
};

// All of rank 1, but for each step's first.
std::vector<GatheredRun> gathered_runs(const RunConfig& config, int ranks) {
  run_as_threads(ranks, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                            const std::function<void()>& on_failure) {
    run_as_rank(config, process, bootstrap, on_failure,
                [](const TrainerContext& context, const SolvedPlan& plan) {
                  std::ostringstream out;
                  train(context, plan, out);
                });
  });
  const Spans spans = read_trace(config.metrics.directory / "trace.rank1.json");
  const PlannedRun run(config, ranks, 1);
  const size_t num_visits = run.visits.size();
  EXPECT_EQ(spans.runs.size(), num_visits * config.train.steps);
  std::vector<GatheredRun> gathered;
  size_t next = 0;  // gather
  for (size_t i = 0; i < spans.runs.size(); ++i) {
    const UnitInfo& unit = *run.visits[i % num_visits].unit;
    const bool is_first = i % num_visits == 0;
    if (!is_first && run.visits[i % num_visits - 1].unit == &unit) continue;  // still there
    const size_t last = next + unit.parameters.size() - 1;
    if (last >= spans.gathers.size()) break;
    if (!is_first)
      gathered.push_back({{spans.gathers[next].begin, spans.gathers[last].begin},
                          spans.runs[i - 1],
                          i > 1 ? spans.runs[i - 2] : Span{}});
    next = last + 1;
  }
  EXPECT_EQ(next, spans.gathers.size());
  return gathered;
}

TEST(Prefetch, SubmitsTheNextUnitsGatherWhileThisUnitRuns) {
  const test::TemporaryFolder folder;
  const RunConfig config = config_of(folder, "1");
  const auto runs = gathered_runs(config, 2);
  // in each of 3 micro-batches 6 of 7 units forward and 6 backward
  EXPECT_EQ(runs.size(), static_cast<size_t>(config.train.steps) * 3 * 12);
  for (const GatheredRun& run : runs) {
    EXPECT_LT(run.submitted.end, run.previous.end);
    EXPECT_GT(run.submitted.begin, run.before_previous.end);
  }
}

TEST(Prefetch, IsOffWithZeroUnits) {
  const test::TemporaryFolder folder;
  for (const GatheredRun& run : gathered_runs(config_of(folder, "0"), 2))
    EXPECT_GT(run.submitted.begin, run.previous.end);
}

}  // namespace
}  // namespace cleave
