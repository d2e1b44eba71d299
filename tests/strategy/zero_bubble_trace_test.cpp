// What a trace of zb-h1 shows: weight gradients apart from the input gradients, and after them.
#include <gtest/gtest.h>

#include <map>

#include "support/equivalence.h"
#include "trace_spans.h"

namespace cleave {
namespace {

// The spans of one unit and micro-batch, by phase; of all steps.
using Runs = std::map<std::string, std::vector<test::TraceSpan>>;

// "weight layers.0 #1" is of "layers.0 #1".
std::map<std::string, Runs> runs_of_units(const std::vector<test::TraceSpan>& spans) {
  std::map<std::string, Runs> runs;
  for (const test::TraceSpan& span : spans) {
    const size_t space = span.name.find(' ');
    if (space == std::string::npos) continue;
    runs[span.name.substr(space + 1)][span.name.substr(0, space)].push_back(span);
  }
  return runs;
}

TEST(ZeroBubble, WeightGradientsFollowTheInputGradientsOfTheirUnitAndMicroBatch) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_config(folder);
  constexpr int kStages = 3, kMicroBatches = 5, kUnits = 7;
  config.train.steps = 2;
  config.train.micro_batch_size = 2;
  config.train.global_batch_size = 2 * kMicroBatches;
  config.mesh = {{"pipeline", kStages}};
  config.strategies = {test::strategy("pipeline", {{"schedule", "\"zb-h1\""}})};
  size_t num_runs = 0, num_apart = 0;
  for (const auto& spans : test::train_traced(config, kStages)) {
    for (auto& [name, phases] : runs_of_units(spans)) {
      SCOPED_TRACE(name);
      ++num_runs;
      ASSERT_EQ(phases["backward"].size(), static_cast<size_t>(config.train.steps));
      ASSERT_EQ(phases["weight"].size(), static_cast<size_t>(config.train.steps));
      for (int64_t step = 0; step < config.train.steps; ++step) {
        const test::TraceSpan &backward = phases["backward"][step],
                              &weight = phases["weight"][step];
        EXPECT_GE(weight.begin, backward.end);
        for (const test::TraceSpan& other : spans)
          num_apart += other.begin >= backward.end && other.end <= weight.begin &&
                       other.name.starts_with("forward ");
      }
    }
  }
  EXPECT_EQ(num_runs, static_cast<size_t>(kUnits * kMicroBatches));
  EXPECT_GT(num_apart, 0u);  // forwards run in between: else it would be 1f1b
}

}  // namespace
}  // namespace cleave
