// Faults of a plugin's option table itself: found before any of its entries is used.
#include <algorithm>
#include <cmath>
#include <set>

#include "cleave/error.h"
#include "option_table.h"
#include "quantity.h"

namespace cleave {
namespace {

constexpr const char* kRemedy = "; correct the plugin's option table and rebuild it";

std::string find_choices_fault(const cleave_option& option) {
  const std::string_view choices = option.choices ? option.choices : "";
  if (choices.empty()) return "an enum without choices";
  std::set<std::string> seen;
  for (const std::string& choice : split_choices(choices)) {
    if (choice.empty()) return message("an empty choice in ", quote_toml(choices));
    if (!seen.insert(choice).second) return message("choice ", choice, " is there twice");
  }
  // a last separator leaves no part behind it
  return choices.back() == '|' ? message("an empty choice in ", quote_toml(choices)) : "";
}

std::string find_range_fault(const cleave_option& option) {
  if (std::isnan(option.minimum) || std::isnan(option.maximum)) return "a limit is not a number";
  if (option.minimum > option.maximum)
    return message("minimum = ", option.minimum, " is above maximum = ", option.maximum);
  return "";
}

std::string find_unit_fault(const cleave_option& option) {
  const std::string unit = option.unit ? option.unit : "";
  if (option.type != CLEAVE_OPTION_DURATION || milliseconds_of_unit(unit)) return "";
  return message("unit ", quote_toml(unit), " of a duration; it may be ms, s, min or h");
}

/// Of one entry with a usable key; without what to do.
std::string find_entry_fault(const cleave_option& option) {
  if (option.type < CLEAVE_OPTION_BOOL || option.type > CLEAVE_OPTION_INT_LIST)
    return message("unknown type ", option.type);
  if (!option.doc || !*option.doc) return "no doc";
  std::string fault = option.type == CLEAVE_OPTION_ENUM ? find_choices_fault(option) : "";
  if (fault.empty() && has_range(domain_of(option).type)) fault = find_range_fault(option);
  if (fault.empty()) fault = find_unit_fault(option);
  if (!fault.empty()) return fault;
  if (!option.default_value || !*option.default_value) return "no default";
  try {
    default_of(option);
  } catch (const ConfigError& error) {
    fault = error.what();
    std::replace(fault.begin(), fault.end(), '\n', ' ');  // a message is one line
  }
  return fault;
}

}  // namespace

std::string find_option_table_fault(const cleave_option* options, uint32_t count) {
  if (!options && count > 0)
    return message("the descriptor counts ", count, " options and has no table", kRemedy);
  std::set<std::string> seen;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string key = options[i].key ? options[i].key : "";
    if (!is_plugin_name(key))
      return message("option ", i, ": its key ", quote_toml(key),
                     " is not a name of letters, digits, - and _", kRemedy);
    if (!seen.insert(key).second) return message("option ", key, " is there twice", kRemedy);
    const std::string fault = find_entry_fault(options[i]);
    if (!fault.empty()) return message("option ", key, ": ", fault, kRemedy);
  }
  return "";
}

}  // namespace cleave
