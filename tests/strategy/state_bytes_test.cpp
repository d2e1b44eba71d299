// ZeRO's formulas (Rajbhandari et al. 2020, arXiv:1910.02054), measured: bytes of model states per
// rank with P parameters on N ranks; and what one more layer costs.
#include <gtest/gtest.h>

#include "core/planned_run.h"
#include "measured_memory.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

/// Bytes per parameter: on every rank + of all ranks together.
struct Share {
  double whole;
  double split;
};

struct Case {
  const char* dtype;
  std::vector<int> ranks;
  PluginTable strategy;
  Share parameters, master, gradients, optimizer;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.dtype << " " << c.strategy.name;
  for (const auto& option : c.strategy.options) *out << " " << option.key << " " << option.toml;
}

PluginTable zero(const char* stage) {
  return test::strategy("zero", {{"stage", stage}});
}

// 25 M parameters in odd sizes.
RunConfig config_of(const test::TemporaryFolder& folder, const Case& c, int ranks) {
  RunConfig config = test::tiny_config(folder);
  config.model = {"qwen2", 4099, 512, 1408, 7, 8, 4, 64, 10000.0, 1e-6, 0.02, true, false};
  config.data.sequence_length = 8;
  config.train.steps = 1;
  config.train.micro_batch_size = 1;
  config.train.global_batch_size = ranks;
  config.train.dtype = c.dtype;
  config.strategies = {c.strategy};
  return config;
}

const std::vector<int> kOneToFour = {1, 2, 3, 4};
const std::vector<int> kThree = {3};

class StateBytes : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Float32, StateBytes,
    testing::Values(
        Case{"float32", kOneToFour, test::strategy("ddp"), {4, 0}, {}, {4, 0}, {8, 0}},
        Case{"float32", kOneToFour, zero("1"), {4, 0}, {}, {4, 0}, {0, 8}},
        Case{"float32", kOneToFour, zero("2"), {4, 0}, {}, {0, 4}, {0, 8}},
        Case{"float32", kOneToFour, zero("3"), {0, 4}, {}, {0, 4}, {0, 8}},
        Case{"float32", kOneToFour, test::strategy("fsdp"), {0, 4}, {}, {0, 4}, {0, 8}}));
INSTANTIATE_TEST_SUITE_P(
    Bfloat16, StateBytes,
    testing::Values(
        Case{"bfloat16", kThree, test::strategy("ddp"), {2, 0}, {4, 0}, {4, 0}, {8, 0}},
        Case{"bfloat16", kThree, zero("1"), {2, 0}, {0, 4}, {4, 0}, {0, 8}},
        Case{"bfloat16", kThree, zero("2"), {2, 0}, {0, 4}, {0, 4}, {0, 8}},
        Case{"bfloat16", kThree, zero("3"), {0, 0}, {0, 4}, {0, 4}, {0, 8}},
        Case{"bfloat16", kThree, test::strategy("fsdp"), {0, 0}, {0, 4}, {0, 4}, {0, 8}}));

TEST_P(StateBytes, FollowTheFormulaAndTheStatedBuffers) {
  const Case& c = GetParam();
  const test::TemporaryFolder folder;
  for (int ranks : c.ranks) {
    const RunConfig config = config_of(folder, c, ranks);
    const double parameters =
        static_cast<double>(PlannedRun(config, ranks, 0).model.table.num_elements());
    EXPECT_NEAR(parameters, 25e6, 1e6);
    const std::pair<MemoryCategory, Share> shares[] = {{MemoryCategory::parameters, c.parameters},
                                                       {MemoryCategory::master, c.master},
                                                       {MemoryCategory::gradients, c.gradients},
                                                       {MemoryCategory::optimizer, c.optimizer}};
    for (const test::MeasuredMemory& rank : test::measure_memory(config, ranks))
      for (const auto& [category, share] : shares) {
        SCOPED_TRACE(message(to_string(category), ", ", ranks, " ranks"));
        const auto i = static_cast<size_t>(category);
        const double formula = parameters * (share.whole + share.split / ranks);
        test::expect_near(static_cast<int64_t>(formula), rank.after_step[i], 0.02);
        test::expect_near(rank.predicted[i], rank.peak[i], 0.02);
      }
  }
}

TEST(MemoryOfALayer, IsItsShardAndItsInputUnderFsdpWithFullRecompute) {
  constexpr int kRanks = 4;
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_config(folder);
  config.model = {"qwen2", 97, 64, 160, 8, 4, 2, 16, 10000.0, 1e-6, 0.02, true, false};
  config.data.sequence_length = 32;
  config.train.steps = 2;
  config.train.global_batch_size = 8;
  config.strategies = {test::strategy("fsdp"),
                       test::strategy("activation-checkpoint", {{"mode", "\"full\""}})};
  const PlannedRun planned(config, kRanks, 0);
  int64_t elements = 0;
  for (const Parameter* parameter : planned.model.unit_infos[1].parameters)
    elements += parameter->num_elements();
  const int64_t input_bytes = int64_t{4} * config.train.micro_batch_size *
                              config.data.sequence_length * config.model.hidden_size;
  std::vector<int64_t> peaks;
  for (int layers : {8, 16, 32}) {
    config.model.num_hidden_layers = layers;
    peaks.push_back(test::measure_memory(config, kRanks)[0].peak_total);
  }
  test::expect_near(16 * elements / kRanks + input_bytes, (peaks[1] - peaks[0]) / 8, 0.02);
  test::expect_near(16 * elements / kRanks + input_bytes, (peaks[2] - peaks[1]) / 16, 0.02);
}

}  // namespace
}  // namespace cleave
