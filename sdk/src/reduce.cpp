#include "cleave/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "cleave/backend.h"
#include "cleave/error.h"

namespace cleave {
namespace {

// One block of accumulators: stays in the first-level cache while every source is added to it.
constexpr int64_t kBlockElements = 2048;

template <typename T>
struct Plain {
  using Storage = T;
  using Value = T;
  static T load(T stored) { return stored; }
  static T store(T value) { return value; }
};

struct BFloat16 {
  using Storage = uint16_t;
  using Value = float;
  static float load(uint16_t stored) {
    return std::bit_cast<float>(static_cast<uint32_t>(stored) << 16);
  }
  static uint16_t store(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40u;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
  }
};

// Branch-free on purpose: both conversions vectorise without F16C. Subnormals go through a float
// addition whose unit in the last place is half's smallest step, so that the hardware rounds.
struct Float16 {
  using Storage = uint16_t;
  using Value = float;
  static float load(uint16_t stored) {
    const uint32_t magnitude = stored & 0x7fffu;
    const uint32_t normal = (magnitude << 13) + (112u << 23);
    const uint32_t special = normal | 0x7f800000u;
    const uint32_t subnormal = std::bit_cast<uint32_t>(
        std::bit_cast<float>((magnitude << 13) | (113u << 23)) - std::bit_cast<float>(113u << 23));
    const uint32_t finite = magnitude < 0x400u ? subnormal : normal;
    const uint32_t bits = magnitude >= 0x7c00u ? special : finite;
    return std::bit_cast<float>(bits | (static_cast<uint32_t>(stored & 0x8000u) << 16));
  }
  static uint16_t store(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    const uint32_t large = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const uint32_t half = magnitude >= 0x47800000u ? large : finite;
    return static_cast<uint16_t>(half | ((bits >> 16) & 0x8000u));
  }
};

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;  // wraps instead of being undefined
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};

struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return (a > b || a != a) ? a : b;  // a != a: NaN stays; a NaN in b wins by the comparison
  }
};

template <typename Codec, typename Op, typename Result>
void reduce(const void* const* sources, int num_sources, void* const* targets, int num_targets,
            int64_t elements) {
  using Storage = typename Codec::Storage;
  using Value = typename Codec::Value;
  alignas(64) std::array<Value, kBlockElements> sums;
  for (int64_t begin = 0; begin < elements; begin += kBlockElements) {
    const int64_t n = std::min(kBlockElements, elements - begin);
    const auto* first = static_cast<const Storage*>(sources[0]) + begin;
    if (num_sources == 1) {
      for (int64_t i = 0; i < n; ++i) sums[i] = Codec::load(first[i]);
    } else {
      const auto* second = static_cast<const Storage*>(sources[1]) + begin;
      for (int64_t i = 0; i < n; ++i)
        sums[i] = Op::apply(Codec::load(first[i]), Codec::load(second[i]));
    }
    for (int s = 2; s < num_sources; ++s) {
      const auto* next = static_cast<const Storage*>(sources[s]) + begin;
      for (int64_t i = 0; i < n; ++i) sums[i] = Op::apply(sums[i], Codec::load(next[i]));
    }
    for (int t = 0; t < num_targets; ++t) {
      auto* target = static_cast<typename Result::Storage*>(targets[t]) + begin;
      for (int64_t i = 0; i < n; ++i) target[i] = Result::store(sums[i]);
    }
  }
}

using Kernel = void (*)(const void* const*, int, void* const*, int, int64_t);

template <typename Codec, typename Result = Codec>
Kernel kernel(cleave_reduction reduction) {
  return reduction == CLEAVE_SUM ? &reduce<Codec, Sum, Result> : &reduce<Codec, Max, Result>;
}

Kernel find_kernel(cleave_dtype dtype, cleave_reduction reduction) {
  switch (dtype) {
    case CLEAVE_FLOAT32:
      return kernel<Plain<float>>(reduction);
    case CLEAVE_FLOAT64:
      return kernel<Plain<double>>(reduction);
    case CLEAVE_BFLOAT16:
      return kernel<BFloat16>(reduction);
    case CLEAVE_FLOAT16:
      return kernel<Float16>(reduction);
    case CLEAVE_INT32:
      return kernel<Plain<int32_t>>(reduction);
    case CLEAVE_INT64:
      return kernel<Plain<int64_t>>(reduction);
    case CLEAVE_UINT8:
      return kernel<Plain<uint8_t>>(reduction);
    case CLEAVE_NUM_DTYPES:
      break;
  }
  throw RuntimeError(message("reduce_buffers: unknown dtype ", static_cast<int>(dtype)));
}

Kernel find_kernel(cleave_dtype dtype, cleave_dtype result, cleave_reduction reduction) {
  if (dtype == result) return find_kernel(dtype, reduction);
  if (dtype == CLEAVE_FLOAT32 && result == CLEAVE_BFLOAT16)
    return kernel<Plain<float>, BFloat16>(reduction);
  if (dtype == CLEAVE_FLOAT32 && result == CLEAVE_FLOAT16)
    return kernel<Plain<float>, Float16>(reduction);
  if (dtype == CLEAVE_BFLOAT16 && result == CLEAVE_FLOAT32)
    return kernel<BFloat16, Plain<float>>(reduction);
  if (dtype == CLEAVE_FLOAT16 && result == CLEAVE_FLOAT32)
    return kernel<Float16, Plain<float>>(reduction);
  throw RuntimeError(message("reduce_into: no ", dtype_name(dtype), " into ", dtype_name(result)));
}

}  // namespace

void reduce_buffers(cleave_dtype dtype, cleave_reduction reduction, const void* const* sources,
                    int num_sources, void* const* targets, int num_targets, int64_t elements) {
  find_kernel(dtype, reduction)(sources, num_sources, targets, num_targets, elements);
}

void reduce_into(cleave_dtype result, void* target, cleave_dtype dtype, cleave_reduction reduction,
                 const void* const* sources, int num_sources, int64_t elements) {
  find_kernel(dtype, result, reduction)(sources, num_sources, &target, 1, elements);
}

}  // namespace cleave
