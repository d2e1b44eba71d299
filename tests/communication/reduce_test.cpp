#include "cleave/reduce.h"

#include "buffer.h"
#include "cleave/error.h"

namespace cleave::testing {
namespace {

TEST(Reduce, Float16ConversionsAreExactAndRoundToNearestEven) {
  // every finite half, plus a second one that makes the sum fall between two halves
  for (const double other : {0.0, 0.37, 1e-7, 2049.0, -3e-5}) {
    Buffer first(CLEAVE_FLOAT16, 65536);
    Buffer second(CLEAVE_FLOAT16, 65536);
    Buffer result(CLEAVE_FLOAT16, 65536);
    for (int bits = 0; bits < 65536; ++bits) {
      const auto stored = static_cast<uint16_t>(bits);
      std::memcpy(first.data(bits), &stored, sizeof stored);
      second.put(bits, other);
    }
    const void* sources[] = {first.data(), second.data()};
    void* target = result.data();
    reduce_buffers(CLEAVE_FLOAT16, CLEAVE_SUM, sources, 2, &target, 1, 65536);
    for (int bits = 0; bits < 65536; ++bits) {
      const auto sum = static_cast<float>(first.get(bits)) + static_cast<float>(second.get(bits));
      const auto expected = static_cast<double>(static_cast<_Float16>(sum));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(result.get(bits))) << bits;
      } else {
        ASSERT_EQ(result.get(bits), expected) << bits << " + " << other;
      }
    }
  }
}

TEST(Reduce, BFloat16KeepsInfinityAndNaN) {
  Buffer data(CLEAVE_BFLOAT16, 3);
  const uint16_t bits[] = {0x7f80, 0x7fc1, 0x7f7f};  // infinity, NaN, the largest number
  for (int i = 0; i < 3; ++i) std::memcpy(data.data(i), &bits[i], 2);
  const void* sources[] = {data.data(), data.data()};
  void* target = data.data();
  reduce_buffers(CLEAVE_BFLOAT16, CLEAVE_SUM, sources, 2, &target, 1, 3);
  EXPECT_TRUE(std::isinf(data.get(0)));
  EXPECT_TRUE(std::isnan(data.get(1)));
  EXPECT_TRUE(std::isinf(data.get(2)));  // twice the largest number
}

TEST(Reduce, WritesAllTargetsAndMayBeInPlace) {
  Buffer a(CLEAVE_INT64, 5000);
  Buffer b(CLEAVE_INT64, 5000);
  a.fill([](int64_t i) { return i; });
  b.fill([](int64_t i) { return 2 * i; });
  const void* sources[] = {a.data(), b.data(), a.data()};
  void* targets[] = {a.data(), b.data()};
  reduce_buffers(CLEAVE_INT64, CLEAVE_SUM, sources, 3, targets, 2, 5000);
  a.expect([](int64_t i) { return 4 * i; }, "first target");
  b.expect([](int64_t i) { return 4 * i; }, "second target");
}

TEST(Reduce, SumsInStepsAreRoundedOnce) {
  for (const cleave_dtype dtype : {CLEAVE_BFLOAT16, CLEAVE_FLOAT16}) {
    // the small terms count only together, after the large ones have cancelled out
    const double terms[] = {3000, 3.0 / 1024, -3000, 5.0 / 1024};
    std::vector<Buffer> parts(4, Buffer(dtype, 1));
    for (int i = 0; i < 4; ++i) parts[i].put(0, terms[i]);
    float halves[2];
    for (int i = 0; i < 2; ++i) {
      const void* sources[] = {parts[2 * i].data(), parts[2 * i + 1].data()};
      reduce_into(CLEAVE_FLOAT32, &halves[i], dtype, CLEAVE_SUM, sources, 2, 1);
    }
    Buffer sum(dtype, 1);
    const void* sources[] = {&halves[0], &halves[1]};
    reduce_into(dtype, sum.data(), CLEAVE_FLOAT32, CLEAVE_SUM, sources, 2, 1);
    EXPECT_EQ(sum.get(0), 8.0 / 1024);
  }
}

TEST(Reduce, OtherTypesAreNotConverted) {
  double target = 0;
  const float value = 1;
  const void* sources[] = {&value};
  EXPECT_THROW(reduce_into(CLEAVE_FLOAT64, &target, CLEAVE_FLOAT32, CLEAVE_SUM, sources, 1, 1),
               RuntimeError);
}

TEST(Reduce, IntegersWrap) {
  uint8_t a = 200;
  const uint8_t b = 100;
  const void* sources[] = {&a, &b};
  void* target = &a;
  reduce_buffers(CLEAVE_UINT8, CLEAVE_SUM, sources, 2, &target, 1, 1);
  EXPECT_EQ(a, 44);
}

}  // namespace
}  // namespace cleave::testing
