// Test data of any dtype, between guard bytes that no operation may touch.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cleave/backend.h"

namespace cleave::testing {

inline uint16_t round_to_bfloat16(double value) {
  if (value == 0) return 0;
  // one rounding from float64: to 8 significant bits, ties to even
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  const double rounded = std::nearbyint(std::ldexp(fraction, 8));
  const auto exact = static_cast<float>(std::ldexp(rounded, exponent - 8));
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(exact) >> 16);
}

inline double from_bfloat16(uint16_t stored) {
  return std::bit_cast<float>(static_cast<uint32_t>(stored) << 16);
}

class Buffer {
 public:
  Buffer(cleave_dtype dtype, int64_t elements)
      : dtype_(dtype),
        elements_(elements),
        bytes_(static_cast<size_t>(elements * dtype_bytes(dtype)) + 2 * kGuard, kPattern) {}
  ~Buffer() {
    for (size_t i = 0; i < kGuard; ++i) {
      if (bytes_[i] == kPattern && bytes_[bytes_.size() - 1 - i] == kPattern) continue;
      ADD_FAILURE() << "guard bytes of a buffer of " << elements_ << " " << dtype_name(dtype_)
                    << " were overwritten";
      return;
    }
  }
  Buffer(const Buffer&) = default;
  Buffer& operator=(const Buffer&) = default;

  uint8_t* data(int64_t element = 0) {
    return bytes_.data() + kGuard + element * dtype_bytes(dtype_);
  }
  int64_t elements() const { return elements_; }
  int64_t num_bytes() const { return elements_ * dtype_bytes(dtype_); }

  void put(int64_t i, double value) {
    switch (dtype_) {
      case CLEAVE_FLOAT32:
        return store(i, static_cast<float>(value));
      case CLEAVE_FLOAT64:
        return store(i, value);
      case CLEAVE_BFLOAT16:
        return store(i, round_to_bfloat16(value));
      case CLEAVE_FLOAT16:
        return store(i, static_cast<_Float16>(value));
      case CLEAVE_INT32:
        return store(i, static_cast<int32_t>(value));
      case CLEAVE_INT64:
        return store(i, static_cast<int64_t>(value));
      default:
        return store(i, static_cast<uint8_t>(value));
    }
  }

  double get(int64_t i) {
    switch (dtype_) {
      case CLEAVE_FLOAT32:
        return load<float>(i);
      case CLEAVE_FLOAT64:
        return load<double>(i);
      case CLEAVE_BFLOAT16:
        return from_bfloat16(load<uint16_t>(i));
      case CLEAVE_FLOAT16:
        return static_cast<double>(load<_Float16>(i));
      case CLEAVE_INT32:
        return load<int32_t>(i);
      case CLEAVE_INT64:
        return static_cast<double>(load<int64_t>(i));
      default:
        return load<uint8_t>(i);
    }
  }

  template <typename Value>
  void fill(Value&& value) {
    for (int64_t i = 0; i < elements_; ++i) put(i, value(i));
  }

  /// Reports the first element that differs.
  template <typename Value>
  void expect(Value&& value, const char* what) {
    for (int64_t i = 0; i < elements_; ++i) {
      if (get(i) == value(i)) continue;
      ADD_FAILURE() << what << " of " << elements_ << " " << dtype_name(dtype_) << ": element " << i
                    << " is " << get(i) << ", expected " << value(i);
      return;
    }
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kPattern = 0xa5;

  template <typename T>
  void store(int64_t i, T value) {
    std::memcpy(data(i), &value, sizeof value);
  }
  template <typename T>
  T load(int64_t i) {
    T value;
    std::memcpy(&value, data(i), sizeof value);
    return value;
  }

  cleave_dtype dtype_;
  int64_t elements_;
  std::vector<uint8_t> bytes_;
};

}  // namespace cleave::testing
