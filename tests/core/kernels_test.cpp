// Every instruction set that this machine runs, against the formulas in float64.
#include "kernels/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace cleave {

namespace avx512 {
extern const Kernels kKernels;
}
namespace avx2 {
extern const Kernels kKernels;
}
namespace baseline {
extern const Kernels kKernels;
}

namespace {

std::vector<const Kernels*> runnable() {
  std::vector<const Kernels*> sets = {&baseline::kKernels};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    sets.push_back(&avx2::kKernels);
  if (&kernels() == &avx512::kKernels) sets.push_back(&avx512::kKernels);
#endif
  return sets;
}

std::vector<float> numbers(int64_t n, double scale, int seed) {
  std::vector<float> x(n);
  for (int64_t i = 0; i < n; ++i)
    x[i] = static_cast<float>(scale * std::sin(0.7 * double(i + 1) * (seed + 1) + seed));
  return x;
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

class KernelsTest : public testing::TestWithParam<const Kernels*> {};
INSTANTIATE_TEST_SUITE_P(Sets, KernelsTest, testing::ValuesIn(runnable()),
                         [](const auto& info) { return std::string(info.param->name); });

constexpr int64_t kLengths[] = {1, 7, 16, 31, 97, 256};

TEST_P(KernelsTest, RmsNormForwardAndBackward) {
  for (int64_t n : kLengths) {
    const int64_t rows = 3;
    const double eps = 1e-3;
    const auto x = numbers(rows * n, 2, 1), dy = numbers(rows * n, 1, 2), w = numbers(n, 1, 3);
    std::vector<float> y(rows * n), scale(rows), dx(rows * n), dw(n, 0.5f);
    GetParam()->rms_norm(x.data(), w.data(), eps, rows, n, y.data(), scale.data());
    GetParam()->rms_norm_backward(dy.data(), x.data(), w.data(), scale.data(), rows, n, dx.data(),
                                  dw.data());
    std::vector<double> expected_dw(n, 0.5);
    for (int64_t r = 0; r < rows; ++r) {
      double squares = 0, along = 0;
      for (int64_t i = 0; i < n; ++i) squares += std::pow(x[r * n + i], 2);
      const double s = 1 / std::sqrt(squares / n + eps);
      for (int64_t i = 0; i < n; ++i) along += double(dy[r * n + i]) * w[i] * x[r * n + i];
      for (int64_t i = 0; i < n; ++i) {
        const int64_t k = r * n + i;
        expected_dw[i] += dy[k] * x[k] * s;
        EXPECT_NEAR(y[k], x[k] * s * w[i], 1e-6 * (1 + std::abs(y[k])));
        EXPECT_NEAR(dx[k], s * (dy[k] * w[i] - x[k] * along * s * s / n), 2e-5);
      }
    }
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(dw[i], expected_dw[i], 1e-5);
  }
}

TEST_P(KernelsTest, SwigluForwardAndBackward) {
  for (int64_t n : kLengths)
    for (double scale : {0.1, 5.0, 200.0}) {
      const auto gate = numbers(n, scale, 1), up = numbers(n, 1, 2), dy = numbers(n, 1, 3);
      std::vector<float> y(n), dgate(n), dup(n);
      GetParam()->swiglu(gate.data(), up.data(), n, y.data());
      GetParam()->swiglu_backward(dy.data(), gate.data(), up.data(), n, dgate.data(), dup.data());
      for (int64_t i = 0; i < n; ++i) {
        const double g = gate[i], s = sigmoid(g);
        EXPECT_NEAR(y[i], g * s * up[i], 1e-6 * (1 + std::abs(g)));
        EXPECT_NEAR(dup[i], dy[i] * g * s, 1e-6 * (1 + std::abs(g)));
        EXPECT_NEAR(dgate[i], dy[i] * up[i] * (s + g * s * (1 - s)), 2e-6);
      }
    }
}

TEST_P(KernelsTest, RotateAndBackIsTheIdentity) {
  const int64_t B = 2, T = 5, H = 3, half = 7, rows = B * T;
  const auto x = numbers(rows * H * 2 * half, 1, 1);
  std::vector<float> cos(T * half), sin(T * half), y(x.size()), back(x.size());
  for (int64_t t = 0; t < T; ++t)
    for (int64_t i = 0; i < half; ++i) {
      cos[t * half + i] = static_cast<float>(std::cos(t / (i + 1.0)));
      sin[t * half + i] = static_cast<float>(std::sin(t / (i + 1.0)));
    }
  const HeadLayout layout{T, H, half, T * H * 2 * half, H * 2 * half, 2 * half};
  GetParam()->rotate(x.data(), layout, cos.data(), sin.data(), 1, 0, rows, y.data());
  GetParam()->rotate(y.data(), layout, cos.data(), sin.data(), -1, 0, rows, back.data());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], x[i], 1e-6);
  const int64_t k = ((1 * T + 3) * H + 2) * 2 * half + 4;  // batch 1, token 3, head 2, dim 4
  EXPECT_NEAR(y[k], x[k] * std::cos(3 / 5.0) - x[k + half] * std::sin(3 / 5.0), 1e-6);
  EXPECT_NEAR(y[k + half], x[k + half] * std::cos(3 / 5.0) + x[k] * std::sin(3 / 5.0), 1e-6);
}

TEST_P(KernelsTest, CrossEntropyLossAndGradient) {
  for (int64_t n : kLengths)
    for (double size : {0.5, 30.0, 300.0}) {
      const auto logits = numbers(3 * n, size, 4);
      auto gradient = logits;
      const int64_t targets[] = {0, n - 1, n / 2};
      const double loss = GetParam()->cross_entropy(gradient.data(), targets, -1, 0.25f, 3, n);
      double expected = 0;
      for (int64_t r = 0; r < 3; ++r) {
        const float* row = logits.data() + r * n;
        double largest = *std::max_element(row, row + n), sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += std::exp(row[i] - largest);
        expected += std::log(sum) + largest - row[targets[r]];
        for (int64_t i = 0; i < n; ++i)
          EXPECT_NEAR(gradient[r * n + i],
                      0.25 * (std::exp(row[i] - largest) / sum - (i == targets[r])), 1e-7);
      }
      EXPECT_NEAR(loss, expected, 1e-6 * (1 + expected));
    }
}

TEST_P(KernelsTest, CrossEntropySkipsIgnoredRows) {
  std::vector<float> logits = numbers(2 * 9, 2, 1);
  const int64_t targets[] = {4, 4};
  EXPECT_EQ(GetParam()->cross_entropy(logits.data(), targets, 4, 1.0f, 2, 9), 0.0);
  for (float value : logits) EXPECT_EQ(value, 0.0f);
}

TEST_P(KernelsTest, NonFiniteInputsStayVisible) {
  std::vector<float> logits = {1, NAN, 2, 3};
  const int64_t target = 0;
  EXPECT_FALSE(std::isfinite(GetParam()->cross_entropy(logits.data(), &target, -1, 1, 1, 4)));
  const std::vector<float> x = {1, NAN, 2};
  EXPECT_FALSE(std::isfinite(GetParam()->square_sum(x.data(), 3)));
}

TEST_P(KernelsTest, CausalSoftmaxForwardAgainAndBackward) {
  const int64_t first = 3, rows = 5, n = 8, stride = 11;
  const auto scores = numbers(rows * stride, 3, 2), upstream = numbers(rows * stride, 1, 3);
  auto p = scores, again = scores, dp = upstream;
  std::vector<float> log_sums(rows), along(rows, 0.0f);
  GetParam()->causal_softmax(p.data(), stride, first, rows, n, log_sums.data());
  GetParam()->causal_softmax_again(again.data(), stride, first, rows, n, log_sums.data());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i) along[r] += p[r * stride + i] * upstream[r * stride + i];
  GetParam()->softmax_backward(p.data(), dp.data(), stride, rows, n, along.data(), 0.5f);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i <= first + r; ++i) sum += std::exp(double(scores[r * stride + i]));
    EXPECT_NEAR(log_sums[r], std::log(sum), 1e-6 * (1 + std::abs(std::log(sum))));
    for (int64_t i = 0; i < stride; ++i) {
      const int64_t k = r * stride + i;
      if (i >= n) {  // beyond the block: untouched
        EXPECT_EQ(p[k], scores[k]);
        EXPECT_EQ(dp[k], upstream[k]);
        continue;
      }
      const double expected = i <= first + r ? std::exp(double(scores[k])) / sum : 0;
      EXPECT_NEAR(p[k], expected, 1e-6);
      EXPECT_NEAR(again[k], expected, 2e-6);
      EXPECT_NEAR(dp[k], expected * (upstream[k] - along[r]) * 0.5, 1e-6);
    }
  }
}

TEST_P(KernelsTest, SquareSumIsFloat64) {
  const std::vector<float> x(100003, 0.1f);
  EXPECT_NEAR(GetParam()->square_sum(x.data(), 100003), 100003 * double(0.1f) * 0.1f, 1e-7);
}

}  // namespace
}  // namespace cleave
