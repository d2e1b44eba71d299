// What a linear takes for its input made again is that input, whatever ran in between.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/torch_ops.h"
#include "support/tiny_run.h"

namespace cleave {
namespace {

at::Tensor activation(std::vector<int64_t> shape) {
  return at::arange(c10::multiply_integers(shape), at::kFloat)
      .sin()
      .view(shape)
      .requires_grad_(true);
}

MakeAgain sevens() {
  return [] { return at::full({2, 3, 4}, 7.0f); };
}

TEST(OfferedOutput, IsTakenOnceThroughAView) {
  const at::Tensor y = activation({2, 3, 4});
  OfferedOutput offered;
  offered.offer(y, sevens());
  const MakeAgain make_again = offered.take(y.flatten(1));
  ASSERT_TRUE(make_again);
  EXPECT_EQ(make_again().sizes(), (std::vector<int64_t>{2, 12}));
  EXPECT_FALSE(offered.take(y));
}

TEST(OfferedOutput, IsNoOtherTensor) {
  const at::Tensor y = activation({2, 3, 4});
  const at::Tensor others[] = {y.clone(), y.narrow(0, 0, 1), y.narrow(0, 1, 1), y.transpose(1, 2)};
  for (const at::Tensor& x : others) {
    OfferedOutput offered;
    offered.offer(y, sevens());
    EXPECT_FALSE(offered.take(x)) << x.sizes();
  }
}

TEST(OfferedOutput, IsNotWhatWasWrittenToSince) {
  at::Tensor y = activation({2, 3, 4}).detach();
  y.requires_grad_(true);
  OfferedOutput offered;
  offered.offer(y, sevens());
  y.detach().mul_(2);
  EXPECT_FALSE(offered.take(y));
}

TEST(OfferedOutput, IsNotALaterTensorAtItsAddress) {
  float memory[24] = {};
  OfferedOutput offered;
  offered.offer(at::from_blob(memory, {2, 3, 4}).requires_grad_(true), sevens());
  EXPECT_FALSE(offered.take(at::from_blob(memory, {2, 3, 4}).requires_grad_(true)));
}

TEST(OfferedOutput, IsNothingWithoutABackward) {
  const at::Tensor y = activation({2, 3, 4}).detach();
  OfferedOutput offered;
  offered.offer(y, sevens());
  EXPECT_FALSE(offered.take(y));
}

// A norm and a linear, with what a rewriter may put in between.
struct Pair {
  explicit Pair(bool recompute) {
    norm.value = at::arange(4, at::kFloat).cos();
    weight.value = activation({5, 4}).detach();
    for (Parameter* parameter : {&norm, &weight})
      parameter->gradient = at::zeros_like(parameter->value);
    UnitInfo unit{"unit", 0, {}};
    unit.recompute.norm = recompute;
    ops.before_unit(unit, 0, Phase::forward);
  }
  // Gradients of input, norm and weight.
  std::vector<at::Tensor> gradients(const std::function<at::Tensor(const at::Tensor&)>& between) {
    const at::Tensor x = activation({2, 3, 4});
    const at::Tensor y = ops.linear(between(ops.rms_norm(x, norm, 1e-6)), projections)[0];
    const at::Tensor dx = torch::autograd::grad({y}, {x}, {y.detach().cos()})[0];
    return {dx, norm.gradient, weight.gradient};
  }

  Parameter norm = {};
  Parameter weight = {};
  std::vector<Projection> projections = {{&weight, nullptr}};
  TorchOps ops;
};

TEST(OutputRecompute, IsRightWhateverIsPutBetweenNormAndLinear) {
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> all = {
      [](const at::Tensor& y) { return y; }, [](const at::Tensor& y) { return y * 3; },
      [](const at::Tensor& y) { return y.flatten(0, 1); },
      [](const at::Tensor& y) { return y.transpose(0, 1); },
      [](const at::Tensor& y) { return y.narrow(0, 1, 1); }};
  for (const auto& between : all) {
    const auto on = Pair(true).gradients(between), off = Pair(false).gradients(between);
    for (size_t i = 0; i < off.size(); ++i) EXPECT_TRUE(test::bitwise_equal(on[i], off[i])) << i;
  }
}

TEST(OutputRecompute, ReadsTheWeightThatIsThereInBackward) {
  Pair pair(true);
  const at::Tensor x = activation({2, 3, 4});
  const at::Tensor y = pair.ops.linear(pair.ops.rms_norm(x, pair.norm, 1e-6), pair.projections)[0];
  const at::Tensor gathered = pair.norm.value.clone();
  pair.norm.value = at::Tensor();  // freed
  pair.norm.value = gathered;
  torch::autograd::grad({y}, {x}, {y.detach().cos()});
  Pair plain(false);
  const auto expected = plain.gradients([](const at::Tensor& between) { return between; });
  EXPECT_TRUE(test::bitwise_equal(pair.weight.gradient, expected[2]));
}

}  // namespace
}  // namespace cleave
