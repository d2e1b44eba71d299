// ddp trains the model that one rank trains: loss, gradients, norm, weights.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cleave/error.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

struct Case {
  int ranks;
  int64_t micro_batch_size;  // of 12 sequences a step: sets the accumulation
  bool tied;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.ranks << " ranks, micro batch " << c.micro_batch_size << (c.tied ? ", tied" : "");
}

RunConfig config_of(const test::TemporaryFolder& folder, const Case& c) {
  RunConfig config = test::tiny_config(folder);
  config.train.micro_batch_size = c.micro_batch_size;
  config.train.steps = 10;
  config.model.tie_word_embeddings = c.tied;
  return config;
}

class DdpLayouts : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Ddp, DdpLayouts,
                         testing::Values(Case{2, 6, false}, Case{2, 2, false}, Case{3, 4, false},
                                         Case{3, 1, true}, Case{4, 1, false}, Case{4, 3, true}));

TEST_P(DdpLayouts, EqualsOneRank) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, GetParam());
  const auto ranks = test::run_ranks(config, GetParam().ranks);
  config.strategies.clear();
  const test::RunResult one = test::run_ranks(config, 1)[0];

  test::expect_same_training(ranks, one);
  for (const StepRecord& record : one.records)
    EXPECT_GT(record.grad_norm, config.optimizer.clip_norm);  // the clip bites
}

TEST_P(DdpLayouts, AllRanksHoldTheSameBits) {
  const test::TemporaryFolder folder;
  const auto ranks = test::run_ranks(config_of(folder, GetParam()), GetParam().ranks);
  for (size_t r = 1; r < ranks.size(); ++r) test::expect_bitwise_equal(ranks[r], ranks[0]);
}

TEST_P(DdpLayouts, RepeatsBitwise) {
  const test::TemporaryFolder folder;
  const RunConfig config = config_of(folder, GetParam());
  const auto first = test::run_ranks(config, GetParam().ranks);
  const auto second = test::run_ranks(config, GetParam().ranks);
  test::expect_bitwise_equal(second[0], first[0]);
}

TEST(Ddp, BucketSizeDoesNotChangeTheResult) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, {3, 2, false});
  const auto whole = test::run_ranks(config, 3);
  for (const char* bytes : {"4", "5000", "100000000"}) {
    config.strategies[0].options = {{"bucket_bytes", bytes, {"test"}}};
    const auto ranks = test::run_ranks(config, 3);
    for (const auto& [name, gradient] : whole[0].first_gradients)
      EXPECT_LE(test::relative_difference(ranks[0].first_gradients.at(name), gradient), 1e-6)
          << name << " with buckets of " << bytes;
  }
}

TEST(Ddp, BytesOfTheGradientsFollowTheFormula) {
  const test::TemporaryFolder folder;
  for (int ranks : {2, 3, 4}) {
    const RunConfig config = config_of(folder, {ranks, 1, false});
    const auto results = test::run_ranks(config, ranks);
    double elements = 0;
    for (const auto& [name, weight] : results[0].final_weights) elements += weight.numel();
    const double expected = 4 * elements * 2 * (ranks - 1) / ranks;
    EXPECT_NEAR(results[0].records[1].wire_bytes / expected, 1.0, 0.01) << ranks;
  }
}

TEST(Ddp, ParametersWithoutAGradientNeitherHangNorMove) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, {3, 2, false});
  config.strategies.push_back({"record-rewriter", {"tiny.toml"}, {}});
  const std::string log = message('"', (folder.path() / "log").string(), '"');
  config.strategies[1].options = {{"skip_biases", "true", {"t"}}, {"log", log, {"t"}}};
  int unused = 0;
  for (const test::RunResult& rank : test::run_ranks(config, 3))
    for (const auto& [name, weight] : rank.initial_weights) {
      if (!name.ends_with(".bias")) continue;
      ++unused;
      EXPECT_EQ(rank.first_gradients.at(name).abs().sum().item<double>(), 0.0) << name;
      EXPECT_TRUE(test::bitwise_equal(rank.final_weights.at(name), weight)) << name;
    }
  EXPECT_EQ(unused, 3 * 5 * 3);
}

TEST(Trainer, NamesTheStepWhereNoTargetCounts) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, {2, 6, false});
  config.data.path = folder.path() / "same.txt";
  std::ofstream(config.data.path) << std::string(4000, '\5');
  try {
    test::run_ranks(config, 2);
    FAIL() << "a batch without targets was accepted";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("step 1: no target counts"), std::string::npos)
        << error.what();
  }
}

TEST(Trainer, StopsAllRanksOnANonFiniteGradient) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, {2, 6, false});
  config.model.initializer_range = 1e20;
  try {
    test::run_ranks(config, 2);
    FAIL() << "a non-finite gradient was accepted";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("the gradient norm is not finite"), std::string::npos)
        << error.what();
  }
}

TEST(Trainer, Bfloat16KeepsAFloat32MasterThatMoves) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, {2, 2, false});
  config.train.dtype = "bfloat16";
  config.train.steps = 3;
  const auto ranks = test::run_ranks(config, 2);
  config.train.dtype = "float32";
  const auto exact = test::run_ranks(config, 2);
  EXPECT_NEAR(ranks[0].records[0].loss / exact[0].records[0].loss, 1.0, 0.02);
  for (const auto& [name, gradient] : ranks[0].first_gradients)
    EXPECT_EQ(gradient.scalar_type(), at::kFloat) << name;
  // an update far below half a unit in the last place of bfloat16 still arrives
  config.train.dtype = "bfloat16";
  config.optimizer.lr = config.optimizer.min_lr = 1e-6;
  const auto slow = test::run_ranks(config, 2);
  for (const auto& [name, weight] : slow[0].final_weights) {
    EXPECT_EQ(weight.scalar_type(), at::kFloat) << name;
    EXPECT_FALSE(test::bitwise_equal(weight, slow[0].initial_weights.at(name))) << name;
  }
}

}  // namespace
}  // namespace cleave
