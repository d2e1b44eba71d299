// A plugin's option table as the host's own key table: validation, defaults, documentation.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "cleave/options.h"
#include "run_config.h"
#include "value.h"

namespace cleave {

/// What is wrong with the table itself, and what to do: "option size: default = 0 is out of range;
/// expected ...". Empty when it can be used. Finds a key that is missing, malformed or there twice,
/// an unknown type, a missing doc, an enum without choices, a range or a unit that can't be, and a
/// default that the option itself would refuse. The caller names the plugin.
std::string find_option_table_fault(const cleave_option* options, uint32_t count);

/// What the option accepts; views into it. Only for tables without a fault.
Domain domain_of(const cleave_option& option);

/// The checked default: as domain_of() says, or an empty path.
Content default_of(const cleave_option& option);

/// Owns the values that a plugin sees through cleave_options.
class OptionValues {
 public:
  /// Checks `table.options` against the `count` entries of `options`; a fault of the table itself,
  /// an unknown key (with the nearest name), wrong type or out of range: ConfigError with the TOML
  /// position. `where` names the plugin, e.g. "strategy.<name>".
  OptionValues(const std::string& where, const cleave_option* options, uint32_t count,
               const PluginTable& table);
  const cleave_options* view() const { return &view_; }

  /// "key = value" lines, defaults included, of the options that must be equal on all ranks;
  /// "25 MiB" and 26214400 are the same text.
  const std::string& shared_values() const { return shared_values_; }

 private:
  cleave_option_value to_value(const cleave_option& option, const Content& content);
  const char* keep(const std::string& text);

  // lists: their elements stay where they are
  std::list<std::string> texts_;
  std::list<std::vector<cleave_option_value>> items_;
  std::vector<cleave_option_value> values_;
  std::string shared_values_;
  cleave_options view_;
};

/// The candidate closest to `name` by edit distance, or "" when none is close.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace cleave
