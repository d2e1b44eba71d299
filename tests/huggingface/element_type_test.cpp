#include "huggingface/element_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace cleave {
namespace {

// From the definition of IEEE 754's binary16.
double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

std::vector<uint16_t> all_16_bits() {
  std::vector<uint16_t> all(65536);
  for (int i = 0; i < 65536; ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

std::vector<float> widen(ElementType type, const std::vector<uint16_t>& bits) {
  std::vector<float> values(bits.size());
  to_float32(type, reinterpret_cast<const std::byte*>(bits.data()),
             static_cast<int64_t>(bits.size()), values.data());
  return values;
}

uint16_t to_bfloat16(float value) {
  uint16_t bits;
  from_float32(ElementType::bfloat16, &value, 1, reinterpret_cast<std::byte*>(&bits));
  return bits;
}

TEST(ElementType, WidensEveryHalfExactly) {
  const auto bits = all_16_bits();
  const auto values = widen(ElementType::float16, bits);
  for (size_t i = 0; i < bits.size(); ++i) {
    const double expected = half_value(bits[i]);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(values[i])) << i;
    else
      EXPECT_TRUE(values[i] == expected && std::signbit(values[i]) == std::signbit(expected)) << i;
  }
}

TEST(ElementType, EveryBfloat16ComesBackBitForBit) {
  const auto bits = all_16_bits();
  const auto values = widen(ElementType::bfloat16, bits);
  for (size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), static_cast<uint32_t>(bits[i]) << 16);
    EXPECT_EQ(to_bfloat16(values[i]), bits[i]);
  }
}

TEST(ElementType, RoundsToTheNearestEvenBfloat16) {
  EXPECT_EQ(to_bfloat16(1.0f + 0x1p-8f), 0x3f80);  // half way: to even
  EXPECT_EQ(to_bfloat16(1.0f + 0x3p-8f), 0x3f82);
  EXPECT_EQ(to_bfloat16(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);
  EXPECT_EQ(to_bfloat16(-1.0f - 0x3p-8f), 0xbf82);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  // a NaN whose upper half alone would be an infinity
  EXPECT_TRUE(std::isnan(
      widen(ElementType::bfloat16, {to_bfloat16(std::bit_cast<float>(uint32_t{0x7f800001}))})[0]));
}

TEST(ElementType, Float32IsCopiedFromAnyAddress) {
  std::byte bytes[9] = {};
  const float value = 0.1f;
  std::memcpy(bytes + 1, &value, sizeof(value));
  float out[2] = {1, 1};
  to_float32(ElementType::float32, bytes + 1, 2, out);
  EXPECT_EQ(out[0], value);
  EXPECT_EQ(out[1], 0);
}

TEST(ElementType, NamesAreThoseOfTheFormat) {
  EXPECT_EQ(find_element_type("BF16"), ElementType::bfloat16);
  EXPECT_EQ(find_element_type("bf16"), std::nullopt);
  for (int i = 0; i <= static_cast<int>(ElementType::boolean); ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(find_element_type(name_of(type)), type);
  }
  EXPECT_EQ(bytes_of(ElementType::float64), 8);
  EXPECT_EQ(bytes_of(ElementType::float8_e4m3), 1);
}

}  // namespace
}  // namespace cleave
