// The blocked attention against ATen's in float64.
#include "core/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "support/tiny_run.h"

namespace cleave {
namespace {

struct Shape {
  int64_t B, T, H, K, D;
};
void PrintTo(const Shape& s, std::ostream* out) {
  *out << s.B << "x" << s.T << "x" << s.H << "/" << s.K << "x" << s.D;
}

class AttentionTest : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest,
                         testing::Values(Shape{1, 1, 1, 1, 2}, Shape{2, 63, 4, 2, 8},
                                         Shape{1, 64, 3, 1, 16}, Shape{2, 65, 4, 4, 6},
                                         Shape{1, 200, 6, 2, 32}));

at::Tensor random(std::vector<int64_t> shape, int seed) {
  const at::Tensor x = at::arange(c10::multiply_integers(shape), at::kDouble);
  return at::sin(x * (1.3 + 0.17 * seed) + seed).view(shape) * 2;
}

TEST_P(AttentionTest, EqualsAtenInFloat64) {
  const auto [B, T, H, K, D] = GetParam();
  const at::Tensor q = random({B, T, H, D}, 1).requires_grad_(true);
  const at::Tensor k = random({B, T, K, D}, 2).requires_grad_(true);
  const at::Tensor v = random({B, T, K, D}, 3).requires_grad_(true);
  const at::Tensor dy = random({B, T, H, D}, 4);
  const auto expand = [&](const at::Tensor& x) {
    return x.repeat_interleave(H / K, 2).transpose(1, 2);
  };
  const at::Tensor expected =
      at::scaled_dot_product_attention(q.transpose(1, 2), expand(k), expand(v), {}, 0.0, true)
          .transpose(1, 2);
  const auto gradients = torch::autograd::grad({expected}, {q, k, v}, {dy});

  const auto f32 = [](const at::Tensor& x) { return x.detach().to(at::kFloat).contiguous(); };
  const AttentionInput input{f32(q), f32(k), f32(v)};
  const AttentionOutput output = attention_forward(input);
  const AttentionInput gradient = attention_backward(input, output, f32(dy));
  EXPECT_LT(test::relative_difference(output.y, expected.detach()), 2e-6);
  if (T == 1) return;  // one token attends to itself alone: the gradients of q and k are zero
  EXPECT_LT(test::relative_difference(gradient.q, gradients[0]), 5e-6);
  EXPECT_LT(test::relative_difference(gradient.k, gradients[1]), 5e-6);
  EXPECT_LT(test::relative_difference(gradient.v, gradients[2]), 5e-6);
}

TEST(Attention, LaterTokensDoNotReachEarlierOnes) {
  const AttentionInput input{random({1, 70, 2, 4}, 1).to(at::kFloat),
                             random({1, 70, 1, 4}, 2).to(at::kFloat),
                             random({1, 70, 1, 4}, 3).to(at::kFloat)};
  const at::Tensor before = attention_forward(input).y;
  input.k.narrow(1, 69, 1).fill_(100);
  input.v.narrow(1, 69, 1).fill_(-7);
  const at::Tensor after = attention_forward(input).y;
  EXPECT_TRUE(test::bitwise_equal(before.narrow(1, 0, 69), after.narrow(1, 0, 69)));
}

}  // namespace
}  // namespace cleave
