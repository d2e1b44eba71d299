#include "huggingface/element_type.h"

#include <bit>
#include <cstddef>
#include <cstring>

#include "cleave/error.h"

namespace cleave {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

struct Entry {
  ElementType type;
  std::string_view name;
  int64_t bytes;
};
constexpr Entry kEntries[] = {
    {ElementType::float64, "F64", 8},         {ElementType::float32, "F32", 4},
    {ElementType::float16, "F16", 2},         {ElementType::bfloat16, "BF16", 2},
    {ElementType::float8_e4m3, "F8_E4M3", 1}, {ElementType::float8_e5m2, "F8_E5M2", 1},
    {ElementType::int64, "I64", 8},           {ElementType::int32, "I32", 4},
    {ElementType::int16, "I16", 2},           {ElementType::int8, "I8", 1},
    {ElementType::uint64, "U64", 8},          {ElementType::uint32, "U32", 4},
    {ElementType::uint16, "U16", 2},          {ElementType::uint8, "U8", 1},
    {ElementType::boolean, "BOOL", 1}};

const Entry& entry_of(ElementType type) {
  return kEntries[static_cast<int>(type)];
}

template <typename T>
T load(const std::byte* from, int64_t index) {
  T value;
  std::memcpy(&value, from + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// Exponent and mantissa are moved into place; 2^112 mends the exponent's bias, of subnormals too.
float widen_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fff) << 13;
  const bool is_finite = (half & 0x7c00) != 0x7c00;
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  return std::bit_cast<float>(sign | (is_finite ? finite : magnitude | 0x7f800000));
}

uint16_t round_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | (bits & 0xffff ? 0x40 : 0));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

std::string_view name_of(ElementType type) {
  return entry_of(type).name;
}

std::optional<ElementType> find_element_type(std::string_view name) {
  for (const Entry& entry : kEntries)
    if (entry.name == name) return entry.type;
  return std::nullopt;
}

int64_t bytes_of(ElementType type) {
  return entry_of(type).bytes;
}

bool is_exact_in_float32(ElementType type) {
  return type == ElementType::float32 || type == ElementType::bfloat16 ||
         type == ElementType::float16;
}

void to_float32(ElementType type, const std::byte* from, int64_t count, float* to) {
  CLEAVE_CHECK(is_exact_in_float32(type), name_of(type));
  if (type == ElementType::float32)
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  else if (type == ElementType::bfloat16)
    for (int64_t i = 0; i < count; ++i)
      to[i] = std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(from, i)) << 16);
  else
    for (int64_t i = 0; i < count; ++i) to[i] = widen_half(load<uint16_t>(from, i));
}

void from_float32(ElementType type, const float* from, int64_t count, std::byte* to) {
  if (type == ElementType::float32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  CLEAVE_CHECK(type == ElementType::bfloat16, name_of(type));
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t rounded = round_to_bfloat16(from[i]);
    std::memcpy(to + i * static_cast<int64_t>(sizeof(rounded)), &rounded, sizeof(rounded));
  }
}

}  // namespace cleave
