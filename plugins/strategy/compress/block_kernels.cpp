#include "block_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

// A copy of each loop per instruction set, chosen when the library is loaded.
#if defined(__x86_64__) && defined(__GNUC__)
#define CLEAVE_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLEAVE_VECTORISED
#endif

namespace cleave {

namespace {

constexpr float kLargestByte = 127.0f;
// Below, the scale or its inverse would leave float32's normal range.
constexpr float kSmallestMagnitude = 1e-35f;
// Adding it leaves no bits behind the point: the hardware rounds to nearest even.
constexpr float kRounder = 12582912.0f;  // 1.5 x 2^23

inline int32_t round_to_int(float x) {
  return std::bit_cast<int32_t>(x + kRounder) - std::bit_cast<int32_t>(kRounder);
}

inline int32_t magnitude_bits(float x) {
  return std::bit_cast<int32_t>(x) & 0x7fffffff;
}

// As integers, magnitudes of float32 stand in order, infinity and then NaN at the end.
CLEAVE_VECTORISED int32_t largest_bits(const float* x, int64_t n) {
  int32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, magnitude_bits(x[i]));
  return largest;
}

CLEAVE_VECTORISED int32_t largest_bits_of_sum(const float* x, const float* y, int64_t n) {
  int32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, magnitude_bits(x[i] + y[i]));
  return largest;
}

CLEAVE_VECTORISED void round_values(const float* x, float inverse, int64_t n, int8_t* bytes) {
  for (int64_t i = 0; i < n; ++i) bytes[i] = static_cast<int8_t>(round_to_int(x[i] * inverse));
}

CLEAVE_VECTORISED void round_sums(const float* x, float* residual, float scale, float inverse,
                                  int64_t n, int8_t* bytes) {
  for (int64_t i = 0; i < n; ++i) {
    const float sum = x[i] + residual[i];
    const int32_t byte = round_to_int(sum * inverse);
    bytes[i] = static_cast<int8_t>(byte);
    residual[i] = sum - static_cast<float>(byte) * scale;
  }
}

CLEAVE_VECTORISED void round_and_add_errors(const float* x, float* residual, float scale,
                                            float inverse, int64_t n, int8_t* bytes) {
  for (int64_t i = 0; i < n; ++i) {
    const int32_t byte = round_to_int(x[i] * inverse);
    bytes[i] = static_cast<int8_t>(byte);
    residual[i] += x[i] - static_cast<float>(byte) * scale;
  }
}

float inverse_of(float scale) {
  return scale == 0 ? 0 : 1 / scale;
}

}  // namespace

float block_scale(const float* x, const float* residual, int64_t n) {
  const float largest =
      std::bit_cast<float>(residual ? largest_bits_of_sum(x, residual, n) : largest_bits(x, n));
  return largest < kSmallestMagnitude ? 0 : largest / kLargestByte;
}

void encode_block(const float* x, float* residual, float scale, int64_t n, int8_t* bytes) {
  if (!std::isfinite(scale)) {
    std::fill_n(bytes, n, int8_t{1});
    if (residual) std::fill_n(residual, n, 0.0f);
  } else if (residual)
    round_sums(x, residual, scale, inverse_of(scale), n, bytes);
  else
    round_values(x, inverse_of(scale), n, bytes);
}

void encode_block_again(const float* x, float* residual, float scale, int64_t n, int8_t* bytes) {
  if (!std::isfinite(scale))
    std::fill_n(bytes, n, int8_t{1});
  else if (residual)
    round_and_add_errors(x, residual, scale, inverse_of(scale), n, bytes);
  else
    round_values(x, inverse_of(scale), n, bytes);
}

CLEAVE_VECTORISED void decode_block(const int8_t* bytes, float scale, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(bytes[i]) * scale;
}

CLEAVE_VECTORISED void add_block(const int8_t* bytes, float scale, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] += static_cast<float>(bytes[i]) * scale;
}

}  // namespace cleave
