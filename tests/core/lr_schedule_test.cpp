#include "core/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cleave {
namespace {

OptimizerConfig config(const char* schedule, int64_t warmup, int64_t decay) {
  OptimizerConfig config{};
  config.lr = 3e-4;
  config.min_lr = 3e-5;
  config.schedule = schedule;
  config.warmup_steps = warmup;
  config.decay_steps = decay;
  return config;
}

TEST(LearningRate, WarmsUpToTheFullRate) {
  for (const char* schedule : {"cosine", "linear", "constant"})
    for (int64_t k = 0; k < 20; ++k)
      EXPECT_DOUBLE_EQ(learning_rate(config(schedule, 20, 200), k), 3e-4 * (k + 1) / 20.0);
}

TEST(LearningRate, CosineFollowsTheClosedForm) {
  for (int64_t k = 20; k < 200; ++k)
    EXPECT_NEAR(learning_rate(config("cosine", 20, 200), k),
                3e-5 + 0.5 * (1 + std::cos(M_PI * (k - 20) / 180.0)) * (3e-4 - 3e-5), 1e-18);
}

TEST(LearningRate, LinearFallsEvenly) {
  EXPECT_DOUBLE_EQ(learning_rate(config("linear", 0, 100), 0), 3e-4);
  EXPECT_DOUBLE_EQ(learning_rate(config("linear", 0, 100), 50), (3e-4 + 3e-5) / 2);
}

TEST(LearningRate, StaysAtTheMinimumAfterTheDecay) {
  for (const char* schedule : {"cosine", "linear"})
    for (int64_t k : {200, 201, 100000})
      EXPECT_DOUBLE_EQ(learning_rate(config(schedule, 20, 200), k), 3e-5);
}

TEST(LearningRate, CornersAreFinite) {
  for (const char* schedule : {"cosine", "linear", "constant"})
    for (auto [warmup, decay] : {std::pair<int64_t, int64_t>{0, 1}, {1, 1}, {10, 10}, {0, 0}})
      for (int64_t k = 0; k < 12; ++k) {
        const double lr = learning_rate(config(schedule, warmup, decay), k);
        EXPECT_TRUE(std::isfinite(lr) && lr >= 0) << schedule << warmup << " " << decay << " " << k;
      }
}

}  // namespace
}  // namespace cleave
