// The trace of a sharded run shows the gather of the next unit under the run of this one.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "core/planned_run.h"
#include "support/equivalence.h"
#include "trace_spans.h"

namespace cleave {
namespace {

using Spans = std::vector<test::TraceSpan>;

bool is_run(const test::TraceSpan& span) {
  return span.name.starts_with("forward ") || span.name.starts_with("backward ");
}
// Of a single parameter.
bool is_gather(const test::TraceSpan& span) {
  return span.name == "data.all_gather";
}

RunConfig config_of(const test::TemporaryFolder& folder, const char* prefetch_units) {
  RunConfig config = test::tiny_config(folder);
  config.train.steps = 2;
  config.strategies = {test::strategy("fsdp", {{"prefetch_units", prefetch_units}})};
  return config;
}

// A run of a unit whose parameters were gathered for it.
struct GatheredRun {
  test::TraceSpan submitted;        // the first and the last of its gathers
  test::TraceSpan previous;         // the run before
  test::TraceSpan before_previous;  // and the one before that
};

// All of rank 1, but for each step's first.
std::vector<GatheredRun> gathered_runs(const RunConfig& config, int ranks) {
  const Spans spans = test::train_traced(config, ranks)[1];
  Spans runs, gathers;
  std::copy_if(spans.begin(), spans.end(), std::back_inserter(runs), is_run);
  std::copy_if(spans.begin(), spans.end(), std::back_inserter(gathers), is_gather);
  const PlannedRun run(config, ranks, 1);
  const size_t num_visits = run.visits.size();
  EXPECT_EQ(runs.size(), num_visits * config.train.steps);
  std::vector<GatheredRun> gathered;
  size_t next = 0;  // gather
  for (size_t i = 0; i < runs.size(); ++i) {
    const UnitInfo& unit = *run.visits[i % num_visits].unit;
    const bool is_first = i % num_visits == 0;
    if (!is_first && run.visits[i % num_visits - 1].unit == &unit) continue;  // still there
    const size_t last = next + unit.parameters.size() - 1;
    if (last >= gathers.size()) break;
    if (!is_first)
      gathered.push_back({{"", gathers[next].begin, gathers[last].begin},
                          runs[i - 1],
                          i > 1 ? runs[i - 2] : test::TraceSpan{}});
    next = last + 1;
  }
  EXPECT_EQ(next, gathers.size());
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
