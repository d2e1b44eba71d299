// Element types of safetensors files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cleave {

enum class ElementType {
  float64,
  float32,
  float16,
  bfloat16,
  float8_e4m3,
  float8_e5m2,
  int64,
  int32,
  int16,
  int8,
  uint64,
  uint32,
  uint16,
  uint8,
  boolean
};

/// "F32", "BF16", ...: as safetensors spells it.
std::string_view name_of(ElementType type);
std::optional<ElementType> find_element_type(std::string_view name);
int64_t bytes_of(ElementType type);

/// Whether to_float32() takes it: each value of F32, BF16 and F16 is a float32.
bool is_exact_in_float32(ElementType type);

/// Converts `count` elements exactly. `from` need not be aligned.
void to_float32(ElementType type, const std::byte* from, int64_t count, float* to);
/// To `type`, float32 or bfloat16 (rounded to nearest even); writes count x bytes_of(type).
void from_float32(ElementType type, const float* from, int64_t count, std::byte* to);

}  // namespace cleave
