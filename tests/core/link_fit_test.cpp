// Latency and bandwidth from times, with and without points that don't belong.
#include "core/link_fit.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

/// alpha 60 us, beta 0.119 GB/s.
std::vector<TimedMessage> messages() {
  std::vector<TimedMessage> all;
  for (double bytes = 8; bytes < 3e8; bytes *= 4) all.push_back({bytes, 60 + bytes / 119});
  return all;
}

TEST(LinkFit, FindsTheLineThatMadeTheTimes) {
  const auto fit = fit_link(messages());
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->alpha_us, 60, 1e-6);
  EXPECT_NEAR(fit->beta_gb_s, 0.119, 1e-9);
  EXPECT_NEAR(fit->deviation, 0, 1e-9);
}

TEST(LinkFit, IsNotLedAstrayByOneDisturbedSize) {
  for (size_t disturbed = 0; disturbed < messages().size(); ++disturbed) {
    auto all = messages();
    all[disturbed].us *= 5;
    const auto fit = fit_link(all);
    ASSERT_TRUE(fit);
    EXPECT_NEAR(fit->alpha_us, 60, 1) << disturbed;
    EXPECT_NEAR(fit->beta_gb_s, 0.119, 0.002) << disturbed;
  }
}

TEST(LinkFit, LatencyIsNeverNegative) {
  const auto fit = fit_link({{1000, 1}, {2000, 4}, {4000, 16}});
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->alpha_us, 0);
  EXPECT_GT(fit->beta_gb_s, 0);
}

TEST(LinkFit, NeedsTwoSizesAndTimesThatGrow) {
  EXPECT_FALSE(fit_link({}));
  EXPECT_FALSE(fit_link({{8, 1}}));
  EXPECT_FALSE(fit_link({{8, 1}, {8, 2}}));
  EXPECT_FALSE(fit_link({{0, 1}, {0, 1}}));
  EXPECT_FALSE(fit_link({{8, 2}, {800, 1}}));
}

}  // namespace
}  // namespace cleave
