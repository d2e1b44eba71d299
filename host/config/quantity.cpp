#include "quantity.h"

#include <limits>
#include <span>

namespace cleave {
namespace {

struct Unit {
  std::string_view name;
  int64_t scale;
};

// b alone would be bits to some, so no spelling has a small one
constexpr Unit kSizes[] = {{"B", 1},
                           {"kB", 1000},
                           {"KB", 1000},
                           {"MB", 1000 * 1000},
                           {"GB", 1000 * 1000 * 1000},
                           {"TB", int64_t{1000} * 1000 * 1000 * 1000},
                           {"KiB", 1 << 10},
                           {"MiB", 1 << 20},
                           {"GiB", 1 << 30},
                           {"TiB", int64_t{1} << 40}};

constexpr Unit kDurations[] = {{"ms", 1}, {"s", 1000}, {"min", 60 * 1000}, {"h", 60 * 60 * 1000}};

const Unit* find_unit(std::string_view name, std::span<const Unit> units) {
  for (const Unit& unit : units)
    if (unit.name == name) return &unit;
  return nullptr;
}

/// Takes the digits at the front of `text`; false when there is none or `number` overflows.
bool take_digits(std::string_view& text, int64_t& number, uint64_t& power) {
  const size_t before = text.size();
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    if (__builtin_mul_overflow(number, 10, &number) ||
        __builtin_add_overflow(number, text[0] - '0', &number) ||
        __builtin_mul_overflow(power, 10, &power))
      return false;
    text.remove_prefix(1);
  }
  return text.size() < before;
}

/// In integers throughout: 1.1 kB is 1100 bytes, whatever a double makes of 1.1.
std::optional<int64_t> parse_quantity(std::string_view text, std::span<const Unit> units) {
  int64_t number = 0;
  uint64_t power = 1;  // 10 to the digits after the point
  uint64_t ignored = 1;
  if (!take_digits(text, number, ignored)) return std::nullopt;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!take_digits(text, number, power)) return std::nullopt;
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  const Unit* unit = find_unit(text, units);
  int64_t scaled = 0;
  if (!unit || __builtin_mul_overflow(number, unit->scale, &scaled)) return std::nullopt;
  const auto unsigned_scaled = static_cast<uint64_t>(scaled);
  if (unsigned_scaled % power != 0) return std::nullopt;
  return static_cast<int64_t>(unsigned_scaled / power);
}

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  return parse_quantity(text, kSizes);
}

std::optional<int64_t> parse_duration_ms(std::string_view text) {
  return parse_quantity(text, kDurations);
}

std::optional<int64_t> milliseconds_of_unit(std::string_view unit) {
  const Unit* found = find_unit(unit, kDurations);
  return found ? std::optional(found->scale) : std::nullopt;
}

std::string format_bytes(int64_t bytes) {
  const Unit* largest = nullptr;
  for (const Unit& unit : kSizes)
    if (unit.scale > 1 && bytes != 0 && bytes % unit.scale == 0 &&
        (!largest || unit.scale > largest->scale))
      largest = &unit;
  if (!largest) return std::to_string(bytes);
  return std::to_string(bytes / largest->scale) + ' ' + std::string(largest->name);
}

}  // namespace cleave
