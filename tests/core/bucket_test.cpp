#include "cleave/bucket.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

std::vector<Parameter> parameters_of(const std::vector<int64_t>& sizes) {
  std::vector<Parameter> parameters(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i)
    parameters[i].value_placement.box = Box::whole({sizes[i]});
  return parameters;
}

std::vector<BucketLayout> layouts_of(std::vector<Parameter>& parameters, int64_t bytes) {
  std::vector<Parameter*> order;
  for (Parameter& parameter : parameters) order.push_back(&parameter);
  return make_buckets(order, bytes);
}

TEST(Bucket, EveryParameterIsInOneSliceInOrder) {
  auto parameters = parameters_of({5, 97, 16, 1, 1000, 3});
  for (int64_t bytes : {1, 64, 400, 4000, 1 << 20}) {
    size_t next = 0;
    for (const BucketLayout& bucket : layouts_of(parameters, bytes)) {
      int64_t end = 0;
      for (const BucketSlice& slice : bucket.slices) {
        EXPECT_EQ(slice.parameter, &parameters[next++]);
        EXPECT_EQ(slice.begin % kSliceAlignment, 0);
        EXPECT_GE(slice.begin, end);
        end = slice.begin + slice.elements;
      }
      EXPECT_GE(bucket.elements, end);
      EXPECT_LT(bucket.elements - end, kSliceAlignment);
    }
    EXPECT_EQ(next, parameters.size());
  }
}

TEST(Bucket, StaysBelowItsLimitUnlessOneParameterIsLarger) {
  auto parameters = parameters_of({16, 16, 16, 1000, 16});
  const auto buckets = layouts_of(parameters, 2 * 16 * 4);
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[0].slices.size(), 2u);
  EXPECT_EQ(buckets[2].elements, 1008);
}

TEST(Bucket, HoldsEmptyParameters) {
  auto parameters = parameters_of({0, 4, 0});
  const auto buckets = layouts_of(parameters, 1 << 20);
  ASSERT_EQ(buckets.size(), 1u);
  EXPECT_EQ(buckets[0].slices.size(), 3u);
  EXPECT_EQ(buckets[0].elements, 16);
}

}  // namespace
}  // namespace cleave
