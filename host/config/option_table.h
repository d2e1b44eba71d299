// One table type for the host's keys and for plugins' options: validation, defaults, documentation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cleave/options.h"
#include "run_config.h"

namespace cleave {

/// Owns the values that a plugin sees through cleave_options.
class OptionValues {
 public:
  /// Checks `table.options` against the `count` entries of `options`; unknown key (with the nearest
  /// name), wrong type or out of range: ConfigError with the TOML position. `where` names the
  /// plugin, e.g. "strategy.<name>".
  OptionValues(const std::string& where, const cleave_option* options, uint32_t count,
               const PluginTable& table);
  const cleave_options* view() const { return &view_; }

 private:
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<cleave_option_value> values_;
  cleave_options view_;
};

/// The candidate closest to `name` by edit distance, or "" when none is close.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace cleave
