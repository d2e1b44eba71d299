#include "support/equivalence.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cleave::test {

PluginTable strategy(const std::string& name,
                     const std::vector<std::pair<std::string, std::string>>& options) {
  PluginTable table{name, {"tiny.toml"}, {}};
  for (const auto& [key, value] : options) table.options.push_back({key, value, {"tiny.toml"}});
  return table;
}

void expect_same_training(const std::vector<RunResult>& ranks, const RunResult& one) {
  double all = 0;
  for (const auto& [name, g] : one.first_gradients)
    all += g.to(at::kDouble).pow(2).sum().item<double>();
  for (const RunResult& rank : ranks) {
    for (const auto& [name, weight] : one.initial_weights)
      EXPECT_TRUE(bitwise_equal(rank.initial_weights.at(name), weight)) << name;
    for (const auto& [name, expected] : one.first_gradients) {
      const at::Tensor difference = rank.first_gradients.at(name) - expected;
      EXPECT_LE(difference.norm().item<double>(),
                1e-5 * std::max(expected.norm().item<double>(), 1e-2 * std::sqrt(all)))
          << name;
    }
    for (size_t step = 0; step < one.records.size(); ++step) {
      EXPECT_NEAR(rank.records[step].loss / one.records[step].loss, 1.0, 1e-6) << step;
      // of equal weights; later steps add what the weights differ by
      EXPECT_NEAR(rank.records[step].grad_norm / one.records[step].grad_norm, 1.0,
                  step == 0 ? 1e-6 : 1e-5)
          << step;
      EXPECT_EQ(rank.records[step].valid_tokens, one.records[step].valid_tokens);
      EXPECT_EQ(rank.records[step].lr, one.records[step].lr);
    }
    for (const auto& [name, weight] : one.final_weights)
      EXPECT_LE(relative_difference(rank.final_weights.at(name), weight), 1e-4) << name;
  }
}

void expect_bitwise_equal(const RunResult& a, const RunResult& b) {
  for (const auto& [name, gradient] : a.first_gradients)
    EXPECT_TRUE(bitwise_equal(b.first_gradients.at(name), gradient)) << name;
  for (const auto& [name, weight] : a.final_weights)
    EXPECT_TRUE(bitwise_equal(b.final_weights.at(name), weight)) << name;
  for (size_t step = 0; step < a.records.size(); ++step) {
    EXPECT_EQ(a.records[step].loss, b.records[step].loss);
    EXPECT_EQ(a.records[step].grad_norm, b.records[step].grad_norm);
  }
}

}  // namespace cleave::test
