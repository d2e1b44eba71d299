// What tensor-parallel and pipeline send: how often, and as many bytes as they predict.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/planned_run.h"
#include "support/equivalence.h"
#include "trace_spans.h"

namespace cleave {
namespace {

PluginTable tensor_parallel(bool sequence_parallel) {
  return test::strategy("tensor-parallel",
                        {{"sequence_parallel", sequence_parallel ? "true" : "false"}});
}

RunConfig config_of(const test::TemporaryFolder& folder, std::map<std::string, int> mesh,
                    std::vector<PluginTable> strategies) {
  RunConfig config = test::tiny_config(folder);
  config.train.steps = 2;
  config.mesh = std::move(mesh);
  config.strategies = std::move(strategies);
  return config;
}

// Of each kind, how many start while `run` runs.
std::map<std::string, int> started_in(const test::TraceSpan& run,
                                      const std::vector<test::TraceSpan>& spans) {
  std::map<std::string, int> counts;
  for (const test::TraceSpan& span : spans)
    if (span.name.starts_with("tensor.") && span.begin >= run.begin && span.begin <= run.end)
      ++counts[span.name];
  return counts;
}

TEST(TensorParallelCollectives, AreTwoForwardAndTwoBackwardALayer) {
  using Counts = std::map<std::string, int>;
  for (const int ranks : {2, 4})
    for (const bool sequence_parallel : {false, true}) {
      const test::TemporaryFolder folder;
      const RunConfig config =
          config_of(folder, {{"tensor", ranks}}, {tensor_parallel(sequence_parallel)});
      const Counts expected = sequence_parallel
                                  ? Counts{{"tensor.all_gather", 2}, {"tensor.reduce_scatter", 2}}
                                  : Counts{{"tensor.all_reduce", 2}};
      for (const auto& spans : test::train_traced(config, ranks)) {
        int num_runs = 0;
        for (const test::TraceSpan& span : spans) {
          if (!span.name.starts_with("forward layers.") &&
              !span.name.starts_with("backward layers."))
            continue;
          ++num_runs;
          EXPECT_EQ(started_in(span, spans), expected) << span.name << ", " << ranks << " ranks";
        }
        const int64_t micro_batches =
            config.train.global_batch_size / config.train.micro_batch_size;
        EXPECT_EQ(num_runs,
                  2 * config.train.steps * micro_batches * config.model.num_hidden_layers);
      }
    }
}

struct Case {
  std::map<std::string, int> mesh;
  std::vector<PluginTable> strategies;
};

void PrintTo(const Case& c, std::ostream* out) {
  for (const auto& [axis, size] : c.mesh) *out << axis << " " << size << " ";
  for (const PluginTable& table : c.strategies) {
    *out << ", " << table.name;
    for (const RawOption& option : table.options) *out << " " << option.key << " " << option.toml;
  }
}

PluginTable pipeline(const char* schedule, const char* virtual_stages = "1") {
  return test::strategy("pipeline", {{"schedule", schedule}, {"virtual_stages", virtual_stages}});
}

class ModelParallelBytes : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Layouts, ModelParallelBytes,
    testing::Values(
        Case{{{"tensor", 2}}, {tensor_parallel(false)}},
        Case{{{"tensor", 4}}, {tensor_parallel(true)}},
        Case{{{"tensor", 2}}, {tensor_parallel(false), test::strategy("activation-checkpoint")}},
        Case{{{"tensor", 2}}, {tensor_parallel(true), test::strategy("activation-checkpoint")}},
        Case{{{"pipeline", 3}}, {pipeline("\"1f1b\"")}},
        Case{{{"pipeline", 3}}, {pipeline("\"zb-h1\"")}},
        Case{{{"pipeline", 3}}, {pipeline("\"interleaved-1f1b\"", "2")}},
        Case{{{"pipeline", 2}, {"tensor", 2}}, {pipeline("\"1f1b\""), tensor_parallel(true)}}));

TEST_P(ModelParallelBytes, SentPerStepArePredicted) {
  const test::TemporaryFolder folder;
  for (const char* dtype : {"float32", "bfloat16"}) {
    RunConfig config = config_of(folder, GetParam().mesh, GetParam().strategies);
    config.train.dtype = dtype;
    int ranks = 1;
    for (const auto& [axis, size] : config.mesh) ranks *= size;
    double predicted = 0;  // the largest rank's, as measured
    for (int rank = 0; rank < ranks; ++rank)
      predicted = std::max(predicted, PlannedRun(config, ranks, rank).plan.wire_bytes_per_step());
    const auto results = test::run_ranks(config, ranks);
    EXPECT_NEAR(results[0].records.back().wire_bytes / predicted, 1.0, 0.01) << dtype;
  }
}

}  // namespace
}  // namespace cleave
