// zero trains the model that one rank trains, in every stage, and moves the bytes that it says.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "cleave/error.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

struct Case {
  int stage;
  int ranks;
  int64_t micro_batch_size;  // of 12 sequences a step: sets the accumulation
  bool tied = false;
  Options options = {};
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "stage " << c.stage << ", " << c.ranks << " ranks, micro batch " << c.micro_batch_size
       << (c.tied ? ", tied" : "");
  for (const auto& [key, value] : c.options) *out << ", " << key << " " << value;
}

RunConfig config_of(const test::TemporaryFolder& folder, const Case& c) {
  RunConfig config = test::tiny_config(folder);
  config.train.micro_batch_size = c.micro_batch_size;
  config.train.steps = 10;
  config.model.tie_word_embeddings = c.tied;
  Options options = c.options;
  options.push_back({"stage", std::to_string(c.stage)});
  config.strategies = {test::strategy("zero", options)};
  return config;
}

class ZeroLayouts : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Stages, ZeroLayouts,
                         testing::Values(Case{1, 1, 4}, Case{1, 2, 6}, Case{1, 3, 4, true},
                                         Case{1, 4, 1}, Case{2, 1, 4}, Case{2, 2, 2, true},
                                         Case{2, 3, 4}, Case{2, 4, 1}, Case{3, 1, 4}, Case{3, 2, 6},
                                         Case{3, 3, 2, true}, Case{3, 4, 1}));
INSTANTIATE_TEST_SUITE_P(
    Options, ZeroLayouts,
    testing::Values(Case{1, 3, 2, false, {{"bucket_bytes", "4"}}},
                    Case{1, 3, 4, false, {{"bucket_bytes", "\"1 GB\""}, {"overlap", "false"}}},
                    Case{2, 3, 1, true, {{"bucket_bytes", "20000"}}},
                    Case{2, 3, 2, true, {{"accumulation", "\"reduce-once\""}}},
                    Case{3, 3, 1, true, {{"accumulation", "\"reduce-once\""}}},
                    Case{3, 2, 2, false, {{"prefetch_units", "0"}}},
                    Case{3, 3, 4, true, {{"prefetch_units", "3"}}},
                    Case{3, 3, 2, false, {{"persistence_threshold", "40"}}},
                    Case{3, 2, 3, true, {{"overlap", "false"}}}));

TEST_P(ZeroLayouts, EqualsOneRank) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, GetParam());
  const auto ranks = test::run_ranks(config, GetParam().ranks);
  config.strategies.clear();
  test::expect_same_training(ranks, test::run_ranks(config, 1)[0]);
}

TEST_P(ZeroLayouts, RepeatsBitwiseOnEveryRank) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, GetParam());
  config.train.steps = 3;
  const auto first = test::run_ranks(config, GetParam().ranks);
  for (const test::RunResult& rank : test::run_ranks(config, GetParam().ranks))
    test::expect_bitwise_equal(rank, first[0]);
}

std::string refusal(const RunConfig& config) {
  try {
    test::run_ranks(config, 2);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Zero, RefusesWhatNeedsWholeGradients) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, {2, 2, 2});
  const std::string log = message('"', (folder.path() / "log").string(), '"');
  config.strategies.push_back(
      test::strategy("record-step", {{"log", log}, {"needs", "\"gradients.whole\""}}));
  EXPECT_EQ(
      refusal(config),
      "tiny.toml: strategy record-step needs gradients.whole because it looks at each gradient "
      "as a matrix, and no strategy of this run offers it; add one that does, or remove "
      "[strategy.record-step]");
  config.strategies[0] = test::strategy("ddp");
  EXPECT_EQ(refusal(config), "accepted");
}

TEST(Zero, RefusesOptionsThatDoNotFit) {
  const test::TemporaryFolder folder;
  EXPECT_NE(refusal(config_of(folder, {4, 2, 2})).find("stage"), std::string::npos);
  EXPECT_NE(refusal(config_of(folder, {1, 2, 2, false, {{"accumulation", "\"reduce-each\""}}}))
                .find("saves no memory in stage 1"),
            std::string::npos);
}

}  // namespace
}  // namespace cleave
