// The plugin's side of its option table: typed access to values that the host has validated.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "cleave/plugin.h"

namespace cleave {

/// A view; valid while the host's option values live (as long as the plugin instance).
/// Asking for a key that the plugin did not declare, or for another type than it declared, throws
/// RuntimeError.
class Options {
 public:
  explicit Options(const cleave_options* options) : options_(options) {}

  bool flag(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  int64_t bytes(std::string_view key) const;
  /// Milliseconds, whatever the option's unit.
  int64_t duration_ms(std::string_view key) const;
  /// A float; an int as well.
  double number(std::string_view key) const;
  /// A string, an enum or a path ("" where none is set).
  std::string_view text(std::string_view key) const;
  std::vector<std::string_view> text_list(std::string_view key) const;
  std::vector<int64_t> integer_list(std::string_view key) const;

 private:
  const cleave_option_value& find(std::string_view key,
                                  std::initializer_list<cleave_option_type> types) const;
  const cleave_options* options_;
};

}  // namespace cleave
