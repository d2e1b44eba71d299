// Packed floats: every bit comes back, and nothing but what was packed is taken for it.
#include "packing.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cleave/backend.h"

namespace {

using namespace cleave::mpi;
using Bytes = std::vector<std::byte>;

constexpr cleave_dtype kDtypes[] = {CLEAVE_FLOAT32, CLEAVE_BFLOAT16};
const std::vector<int64_t> kCounts = {0, 1, 255, 256, 257, 511, 512, 4099, 32771};

/// `count` values, from the upper bits of float32s.
template <class Make>
Bytes values(cleave_dtype dtype, int64_t count, Make make) {
  const auto size = static_cast<size_t>(cleave::dtype_bytes(dtype));
  Bytes all;
  for (int64_t i = 0; i < count; ++i) {
    const auto word = std::bit_cast<std::array<std::byte, 4>>(static_cast<float>(make(i)));
    all.insert(all.end(), word.end() - static_cast<std::ptrdiff_t>(size), word.end());
  }
  return all;
}

Bytes packed(cleave_dtype dtype, const Bytes& all) {
  const auto bytes = static_cast<int64_t>(all.size());
  Bytes out(static_cast<size_t>(max_packed_bytes(dtype, bytes)) + 1, std::byte{0xaa});
  const int64_t written = pack(dtype, all.data(), bytes, out.data());
  EXPECT_LT(written, static_cast<int64_t>(out.size()));
  EXPECT_EQ(out.back(), std::byte{0xaa});
  out.resize(static_cast<size_t>(written));
  return out;
}

bool unpacks(cleave_dtype dtype, const Bytes& from, Bytes& to) {
  return unpack(dtype, from.data(), static_cast<int64_t>(from.size()), to.data(),
                static_cast<int64_t>(to.size()));
}

void expect_all_bits_back(cleave_dtype dtype, const Bytes& all, const char* what) {
  Bytes back(all.size(), std::byte{0x55});
  EXPECT_TRUE(unpacks(dtype, packed(dtype, all), back)) << what;
  EXPECT_TRUE(back == all) << what << ", " << all.size() << " bytes";
}

TEST(Packing, AllBitsComeBack) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 1e-3f);
  const float kInfinity = std::numeric_limits<float>::infinity();
  const float odd[] = {0.0f,
                       -0.0f,
                       kInfinity,
                       -kInfinity,
                       std::nanf("1"),
                       -std::nanf("2"),
                       std::numeric_limits<float>::denorm_min(),
                       std::numeric_limits<float>::min(),
                       std::numeric_limits<float>::max(),
                       1.0f};
  for (const cleave_dtype dtype : kDtypes) {
    for (const int64_t count : kCounts) {
      expect_all_bits_back(dtype, values(dtype, count, [&](int64_t) { return normal(random); }),
                           "normal");
      expect_all_bits_back(dtype, values(dtype, count, [](int64_t) { return 0; }), "zeros");
      expect_all_bits_back(dtype, values(dtype, count, [](int64_t) { return -3.7; }), "equal");
      expect_all_bits_back(dtype, values(dtype, count, [&](int64_t i) { return odd[i % 10]; }),
                           "special");
      expect_all_bits_back(
          dtype,
          values(dtype, count,
                 [&](int64_t) { return std::bit_cast<float>(static_cast<uint32_t>(random())); }),
          "any bits");
      expect_all_bits_back(
          dtype,
          values(dtype, count, [](int64_t i) { return std::ldexp(1.0, -static_cast<int>(i % 9)); }),
          "around the limit of seven exponents");
      expect_all_bits_back(
          dtype,
          values(dtype, count, [&](int64_t i) { return i % 3 == 0 ? normal(random) : 0.0f; }),
          "two thirds zeros");
    }
  }
}

// One more or less exception than the shorter form pays for.
TEST(Packing, EachNumberOfExceptionsComesBack) {
  for (const cleave_dtype dtype : kDtypes)
    for (int64_t zeros = 0; zeros <= kPackingBlock; ++zeros)
      expect_all_bits_back(
          dtype, values(dtype, kPackingBlock, [&](int64_t i) { return i < zeros ? 0 : 1; }),
          "some zeros");
}

TEST(Packing, BytesAreThoseOfTheFormula) {
  for (const cleave_dtype dtype : kDtypes) {
    const double bits = 8 * static_cast<double>(cleave::dtype_bytes(dtype));
    const int64_t count = 64 * kPackingBlock;
    const auto bits_of = [&](const Bytes& all) {
      return 8 * static_cast<double>(packed(dtype, all).size()) / static_cast<double>(count);
    };
    const double header = 1.0 / 16;
    EXPECT_EQ(bits_of(values(dtype, count, [](int64_t) { return 1; })), bits - 5 + header);
    const auto one_zero = [](int64_t i) { return i % kPackingBlock == 9 ? 0 : 1; };
    EXPECT_EQ(bits_of(values(dtype, count, one_zero)), bits - 5 + header + 1.0 / 32);
    std::mt19937 random(3);
    const auto any = [&](int64_t) { return std::bit_cast<float>(static_cast<uint32_t>(random())); };
    EXPECT_EQ(bits_of(values(dtype, count, any)), bits + header);
    std::normal_distribution<float> normal(0, 1e-3f);
    EXPECT_LT(bits_of(values(dtype, count, [&](int64_t) { return normal(random); })), bits - 4.6);
  }
}

TEST(Packing, OtherLengthsAreRefused) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 1);
  for (const cleave_dtype dtype : kDtypes) {
    const Bytes all = values(dtype, 700, [&](int64_t) { return normal(random); });
    const Bytes whole = packed(dtype, all);
    Bytes back(all.size());
    for (size_t length = 0; length < whole.size(); ++length) {
      const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_FALSE(unpacks(dtype, part, back)) << length;
    }
    Bytes longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(unpacks(dtype, longer, back));
    Bytes other(all.size() + 4);
    EXPECT_FALSE(unpacks(dtype, whole, other));
  }
}

// Whatever arrives, nothing behind the buffers is read or written (a sanitizer would tell).
TEST(Packing, DamagedBytesHarmNothing) {
  std::mt19937 random(11);
  for (const cleave_dtype dtype : kDtypes) {
    Bytes all = packed(dtype, values(dtype, 600, [](int64_t i) { return i % 5; }));
    Bytes back(600 * static_cast<size_t>(cleave::dtype_bytes(dtype)));
    for (int flip = 0; flip < 2000; ++flip) {
      const size_t at = random() % all.size();
      const std::byte before = all[at];
      all[at] = static_cast<std::byte>(random());
      unpacks(dtype, all, back);
      all[at] = before;
    }
    EXPECT_TRUE(unpacks(dtype, all, back));
  }
}

TEST(Packing, OnlyTheTwoFormatsArePacked) {
  for (int dtype = 0; dtype < CLEAVE_NUM_DTYPES; ++dtype)
    EXPECT_EQ(can_pack(static_cast<cleave_dtype>(dtype)),
              dtype == CLEAVE_FLOAT32 || dtype == CLEAVE_BFLOAT16);
}

}  // namespace
