// Under bfloat16 a split model is as near to float32 as one rank is.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/equivalence.h"

namespace cleave {
namespace {

struct Case {
  std::map<std::string, int> mesh;
  std::vector<PluginTable> strategies;
};

void PrintTo(const Case& c, std::ostream* out) {
  for (const auto& [axis, size] : c.mesh) *out << axis << " " << size << " ";
}

RunConfig config_of(const test::TemporaryFolder& folder, const char* dtype) {
  RunConfig config = test::tiny_config(folder);
  config.train.dtype = dtype;
  config.train.steps = 5;
  config.strategies.clear();
  return config;
}

int ranks_of(const Case& c) {
  int ranks = 1;
  for (const auto& [axis, size] : c.mesh) ranks *= size;
  return ranks;
}

PluginTable tensor_parallel(const char* sequence_parallel) {
  return test::strategy("tensor-parallel", {{"sequence_parallel", sequence_parallel}});
}
PluginTable pipeline(const char* schedule) {
  return test::strategy("pipeline", {{"schedule", schedule}});
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>();
}

double square(double x) {
  return x * x;
}

// bfloat16 has 8 bits of fraction: the largest relative error of one rounding. A gradient goes
// through about 8 rounded tensors a layer forward and as many backward; errors that all point one
// way would add up to so many roundings in 5 layers.
constexpr double kRounding = 1.0 / 256;
constexpr double kRoundings = 16 * 5;

class PipelineBfloat16 : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Layouts, PipelineBfloat16,
                         testing::Values(Case{{{"pipeline", 3}}, {pipeline("\"1f1b\"")}},
                                         Case{{{"pipeline", 2}}, {pipeline("\"zb-h1\"")}}));

// The same operations on the same values: what is sent is not rounded again.
TEST_P(PipelineBfloat16, ComputesOneRanksGradientsBitForBit) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, "bfloat16");
  const auto one = test::run_ranks(config, 1)[0];
  config.mesh = GetParam().mesh;
  config.strategies = GetParam().strategies;
  for (const test::RunResult& rank : test::run_ranks(config, ranks_of(GetParam()))) {
    EXPECT_EQ(rank.records[0].loss, one.records[0].loss);
    for (const auto& [name, gradient] : one.first_gradients)
      EXPECT_TRUE(test::bitwise_equal(rank.first_gradients.at(name), gradient)) << name;
  }
}

class SplitBfloat16 : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Layouts, SplitBfloat16,
                         testing::Values(Case{{{"tensor", 2}}, {tensor_parallel("false")}},
                                         Case{{{"tensor", 4}}, {tensor_parallel("true")}},
                                         Case{{{"pipeline", 2}, {"tensor", 2}},
                                              {pipeline("\"1f1b\""), tensor_parallel("true")}}));

TEST_P(SplitBfloat16, IsAsNearToFloat32AsOneRank) {
  const test::TemporaryFolder folder;
  const auto exact = test::run_ranks(config_of(folder, "float32"), 1)[0];
  RunConfig config = config_of(folder, "bfloat16");
  const auto one = test::run_ranks(config, 1)[0];
  config.mesh = GetParam().mesh;
  config.strategies = GetParam().strategies;
  const auto split = test::run_ranks(config, ranks_of(GetParam()))[0];
  double all = 0, of_one = 0, of_split = 0;
  for (const auto& [name, gradient] : exact.first_gradients) {
    all += square(gradient.to(at::kDouble).norm().item<double>());
    of_one += square(distance(one.first_gradients.at(name), gradient));
    of_split += square(distance(split.first_gradients.at(name), gradient));
  }
  // as a whole no worse than one rank: the borders round sums that one rank rounds inside a product
  EXPECT_LE(of_split, square(1.5) * of_one);
  for (const auto& [name, gradient] : exact.first_gradients)
    EXPECT_LE(
        distance(split.first_gradients.at(name), gradient),
        kRoundings * kRounding * std::max(gradient.norm().item<double>(), 1e-2 * std::sqrt(all)))
        << name;
  for (size_t step = 0; step < exact.records.size(); ++step) {
    EXPECT_NEAR(split.records[step].loss / exact.records[step].loss, 1, kRounding) << step;
    EXPECT_NEAR(split.records[step].grad_norm / exact.records[step].grad_norm, 1, 4 * kRounding)
        << step;
  }
}

}  // namespace
}  // namespace cleave
