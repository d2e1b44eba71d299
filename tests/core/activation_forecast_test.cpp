// Activations that a dry run finds are those that the formulas of torch_ops.h and
// activation-checkpoint state.
#include "core/activation_forecast.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/decoder.h"
#include "core/live_bytes.h"

namespace cleave {
namespace {

constexpr int64_t B = 2, T = 19, C = 24, H = 6, K = 2, D = 4, F = 40;

// As many forwards, then their backwards.
std::vector<Action> actions_with(int micro_batches_alive) {
  std::vector<Action> actions;
  for (const Action::Kind kind : {Action::Kind::forward, Action::Kind::backward})
    for (int m = 0; m < micro_batches_alive; ++m) actions.push_back({kind, 0, m});
  return actions;
}

ActivationForecast forecast(int layers, at::ScalarType dtype, const Recompute& recompute = {},
                            int micro_batches_alive = 1, int vocab_size = 97) {
  ModelConfig model{"qwen2", vocab_size, C, F, layers, H, K, D, 10000.0, 1e-6, 0.02, true, false};
  ParameterTable table(dtype);
  const auto units = make_decoder(model, T, table);
  for (const auto& unit : units)
    if (unit->info.kind == UnitKind::layer) unit->info.recompute = recompute;
  return forecast_activations(units, {B, T, C}, actions_with(micro_batches_alive));
}

// What one more layer keeps, per token.
int64_t kept_per_token(at::ScalarType dtype, const Recompute& recompute = {}) {
  const int64_t bytes =
      forecast(5, dtype, recompute).kept_bytes - forecast(4, dtype, recompute).kept_bytes;
  EXPECT_EQ(bytes % (B * T), 0);
  return bytes / (B * T);
}

TEST(ActivationForecast, KeepsWhatTheFormulasSay) {
  for (const auto& [dtype, element] : {std::pair{at::kFloat, 4}, std::pair{at::kBFloat16, 2}}) {
    const int64_t floats = 4 * (H + 2);
    const int64_t off = element * (4 * C + 2 * H * D + 2 * K * D + 3 * F) + floats;
    EXPECT_EQ(kept_per_token(dtype), off);
    EXPECT_EQ(kept_per_token(dtype, {.norm = true}), off - element * 2 * C);
    EXPECT_EQ(kept_per_token(dtype, {.attention = true}), off - element * H * D - 4 * H);
    EXPECT_EQ(kept_per_token(dtype, {.mlp = true}), off - element * F);
    EXPECT_EQ(kept_per_token(dtype, {.unit = true}), element * C);
  }
}

TEST(ActivationForecast, KeepsAsManyMicroBatchesAsAreAlive) {
  const int64_t rotary_bytes = 2 * T * (D / 2) * 4;  // shared
  const int64_t one = forecast(3, at::kFloat).kept_bytes - rotary_bytes;
  for (int alive : {2, 5}) {
    const ActivationForecast several = forecast(3, at::kFloat, {}, alive);
    EXPECT_EQ(several.kept_bytes, alive * one + rotary_bytes);
    EXPECT_GT(several.peak_bytes, several.kept_bytes);
    EXPECT_TRUE(several.of_units.empty());
  }
}

TEST(ActivationForecast, NamesTheUnitThatNeedsTheMost) {
  EXPECT_EQ(forecast(3, at::kFloat, {}, 1, 5).peak_unit, "layers.2");
  EXPECT_EQ(forecast(3, at::kFloat, {}, 1, 9973).peak_unit, "head");
}

TEST(ActivationForecast, RisesInForwardAndFallsInBackward) {
  const ActivationForecast three = forecast(3, at::kFloat);
  ASSERT_EQ(three.of_units.size(), 5u);
  for (int layer = 1; layer < 3; ++layer) {
    EXPECT_LT(three.of_units.at(layer).forward, three.of_units.at(layer + 1).forward);
    EXPECT_LT(three.of_units.at(layer).backward, three.of_units.at(layer + 1).backward);
  }
  int64_t peak = 0;
  for (const auto& [unit, bytes] : three.of_units)
    peak = std::max({peak, bytes.forward, bytes.backward});
  EXPECT_EQ(peak, three.peak_bytes);
}

TEST(ActivationForecast, IsTheSameWhenAskedAgain) {
  ModelConfig model{"qwen2", 97, C, F, 2, H, K, D, 10000.0, 1e-6, 0.02, true, false};
  ParameterTable table(at::kFloat);
  const auto units = make_decoder(model, T, table);
  const ActivationForecast first = forecast_activations(units, {B, T, C}, actions_with(1));
  const ActivationForecast second = forecast_activations(units, {B, T, C}, actions_with(1));
  EXPECT_EQ(first.kept_bytes, second.kept_bytes);
  EXPECT_EQ(first.peak_bytes, second.peak_bytes);
}

TEST(LiveBytes, CountsAStorageOnceUntilItsLastTensorIsGone) {
  LiveBytes live;
  at::Tensor tensor = at::empty({3, 5}, at::dtype(at::kFloat).device(at::kMeta));
  at::Tensor view = tensor.view(-1);
  live.see(tensor);
  live.see(view);
  live.see(at::Tensor());
  EXPECT_EQ(live.now(), 60);
  tensor.reset();
  EXPECT_EQ(live.now(), 60);
  view.reset();
  EXPECT_EQ(live.now(), 0);
}

}  // namespace
}  // namespace cleave
