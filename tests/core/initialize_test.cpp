#include "core/initialize.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/tiny_run.h"

namespace cleave {
namespace {

at::Tensor part(const Box& box, const std::vector<int64_t>& shape, const std::string& name = "w",
                uint64_t seed = 3) {
  at::Tensor out = at::empty(box.shape(), at::kFloat);
  fill_normal(out, name, shape, box, seed, 0.5);
  return out;
}

TEST(Initialize, AnyBoxHoldsTheSameValuesAsTheWhole) {
  const std::vector<int64_t> shape = {7, 5, 9};
  const at::Tensor whole = part(Box::whole(shape), shape);
  for (int64_t r0 : {0, 2})
    for (int64_t r1 : {3, 7})
      for (int64_t c0 : {0, 1, 4})
        for (int64_t c1 : {5, 9}) {
          const Box box{{r0, 1, c0}, {r1, 4, c1}};
          const at::Tensor expected =
              whole.slice(0, r0, r1).slice(1, 1, 4).slice(2, c0, c1).contiguous();
          EXPECT_TRUE(test::bitwise_equal(part(box, shape), expected));
        }
}

TEST(Initialize, DependsOnSeedAndName) {
  const std::vector<int64_t> shape = {64};
  const Box box = Box::whole(shape);
  EXPECT_FALSE(at::equal(part(box, shape, "a"), part(box, shape, "b")));
  EXPECT_FALSE(at::equal(part(box, shape, "a", 1), part(box, shape, "a", 2)));
}

TEST(Initialize, IsNormal) {
  const std::vector<int64_t> shape = {300, 333};
  const at::Tensor x = part(Box::whole(shape), shape).to(at::kDouble) / 0.5;
  EXPECT_NEAR(x.mean().item<double>(), 0.0, 0.015);
  EXPECT_NEAR(x.std().item<double>(), 1.0, 0.01);
  EXPECT_NEAR(x.pow(4).mean().item<double>(), 3.0, 0.1);
  EXPECT_NEAR(x.abs().le(1.0).to(at::kDouble).mean().item<double>(), 0.6827, 0.006);
}

TEST(Initialize, EmptyBoxIsLeftAlone) {
  const std::vector<int64_t> shape = {7, 5};
  EXPECT_EQ(part({{3, 0}, {3, 5}}, shape).numel(), 0);
}

}  // namespace
}  // namespace cleave
