// The plugin's side of its option table: typed access to values that the host has validated.
#pragma once

#include <cstdint>
#include <string_view>

#include "cleave/plugin.h"

namespace cleave {

/// A view; valid while the host's option values live (as long as the plugin instance).
/// Asking for a key that the plugin did not declare throws RuntimeError.
class Options {
 public:
  explicit Options(const cleave_options* options) : options_(options) {}

  bool flag(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  std::string_view text(std::string_view key) const;

 private:
  const cleave_option_value& find(std::string_view key) const;
  const cleave_options* options_;
};

}  // namespace cleave
