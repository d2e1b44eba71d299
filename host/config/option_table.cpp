#include "option_table.h"

#include <algorithm>

#include "cleave/error.h"
#include "keys.h"
#include "value.h"

namespace cleave {
namespace {

Domain domain_of(const cleave_option& option) {
  Domain domain{ValueType::text, option.minimum, option.maximum};
  if (option.unit) domain.unit = option.unit;
  switch (option.type) {
    case CLEAVE_OPTION_BOOL:
      domain.type = ValueType::boolean;
      break;
    case CLEAVE_OPTION_INT:
      domain.type = ValueType::integer;
      break;
    case CLEAVE_OPTION_FLOAT:
      domain.type = ValueType::number;
      break;
    case CLEAVE_OPTION_ENUM:
      domain.type = ValueType::choice;
      domain.choices = option.choices ? option.choices : "";
      break;
    default:
      break;
  }
  return domain;
}

Scalar checked(const std::string& where, const std::string& toml, const cleave_option& option) {
  const auto value = parse_toml_value(toml);
  if (!value)
    throw ConfigError(
        message(where, " = ", toml, " is not TOML; expected ", describe(domain_of(option))));
  return check_value(where, *value, domain_of(option));
}

/// A default that the plugin's own table refuses would otherwise reach the plugin unchecked.
Scalar default_value(const std::string& where, const cleave_option& option) {
  try {
    return checked(where, option.default_value ? option.default_value : "", option);
  } catch (const ConfigError& error) {
    throw ConfigError(message("the plugin's own default of ", error.what(),
                              " (a fault of the plugin; write the option to get round it)"));
  }
}

}  // namespace

OptionValues::OptionValues(const std::string& where, const cleave_option* options, uint32_t count,
                           const PluginTable& table) {
  std::vector<std::string> known;
  for (uint32_t i = 0; i < count; ++i) known.emplace_back(options[i].key);
  for (const RawOption& raw : table.options)
    if (std::find(known.begin(), known.end(), raw.key) == known.end())
      throw ConfigError(message(raw.origin.text, ": ", where, ".", raw.key, ": unknown key; ",
                                unknown_key_advice(where, raw.key, known)));

  for (uint32_t i = 0; i < count; ++i) {
    const std::string name = where + "." + known[i];
    const auto raw = std::find_if(table.options.begin(), table.options.end(),
                                  [&](const RawOption& option) { return option.key == known[i]; });
    const Scalar scalar = raw == table.options.end()
                              ? default_value(name, options[i])
                              : checked(raw->origin.text + ": " + name, raw->toml, options[i]);
    cleave_option_value value{options[i].key, 0, 0, ""};
    if (const auto* flag = std::get_if<bool>(&scalar)) value.integer = *flag;
    if (const auto* number = std::get_if<double>(&scalar)) value.number = *number;
    if (const auto* integer = std::get_if<int64_t>(&scalar)) {
      value.integer = *integer;
      value.number = static_cast<double>(*integer);
    }
    if (const auto* text = std::get_if<std::string>(&scalar)) {
      texts_.push_back(std::make_unique<std::string>(*text));
      value.text = texts_.back()->c_str();
    }
    values_.push_back(value);
  }
  view_ = {values_.data(), static_cast<uint32_t>(values_.size())};
}

}  // namespace cleave
