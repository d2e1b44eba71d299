#include "cleave/options.h"

#include <algorithm>

#include "cleave/error.h"

namespace cleave {

const cleave_option_value& Options::find(std::string_view key,
                                         std::initializer_list<cleave_option_type> types) const {
  for (uint32_t i = 0; i < options_->count; ++i) {
    const cleave_option_value& value = options_->values[i];
    if (key != value.key) continue;
    if (std::find(types.begin(), types.end(), value.type) == types.end())
      throw RuntimeError(message("option ", key, " is read as another type than the plugin's ",
                                 "option table declares; read it with that type's function"));
    return value;
  }
  throw RuntimeError(message("option ", key, " is not in the plugin's option table; declare it"));
}

bool Options::flag(std::string_view key) const {
  return find(key, {CLEAVE_OPTION_BOOL}).integer != 0;
}

int64_t Options::integer(std::string_view key) const {
  return find(key, {CLEAVE_OPTION_INT}).integer;
}

int64_t Options::bytes(std::string_view key) const {
  return find(key, {CLEAVE_OPTION_BYTES}).integer;
}

int64_t Options::duration_ms(std::string_view key) const {
  return find(key, {CLEAVE_OPTION_DURATION}).integer;
}

double Options::number(std::string_view key) const {
  return find(key, {CLEAVE_OPTION_FLOAT, CLEAVE_OPTION_INT}).number;
}

std::string_view Options::text(std::string_view key) const {
  return find(key, {CLEAVE_OPTION_STRING, CLEAVE_OPTION_ENUM, CLEAVE_OPTION_PATH}).text;
}

std::vector<std::string_view> Options::text_list(std::string_view key) const {
  const cleave_option_value& value = find(key, {CLEAVE_OPTION_STRING_LIST});
  std::vector<std::string_view> items;
  for (uint32_t i = 0; i < value.num_items; ++i) items.emplace_back(value.items[i].text);
  return items;
}

std::vector<int64_t> Options::integer_list(std::string_view key) const {
  const cleave_option_value& value = find(key, {CLEAVE_OPTION_INT_LIST});
  std::vector<int64_t> items;
  for (uint32_t i = 0; i < value.num_items; ++i) items.push_back(value.items[i].integer);
  return items;
}

}  // namespace cleave
