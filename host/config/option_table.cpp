#include "option_table.h"

#include <algorithm>

#include "cleave/error.h"
#include "keys.h"

namespace cleave {
namespace {

/// An enum with the words true and false ("true|false|auto").
bool has_boolean_words(const Domain& domain) {
  if (domain.type != ValueType::choice) return false;
  const auto choices = split_choices(domain.choices);
  const auto has = [&](const char* word) {
    return std::find(choices.begin(), choices.end(), word) != choices.end();
  };
  return has("true") && has("false");
}

Content checked(const std::string& where, const std::string& toml, const Domain& domain) {
  auto value = parse_toml_value(toml);
  if (!value)
    throw ConfigError(message(where, " = ", toml, " is not TOML; expected ", describe(domain)));
  if (std::holds_alternative<bool>(value->content) && has_boolean_words(domain))
    value->content = to_toml(value->content);
  return check_value(where, *value, domain);
}

ValueType value_type(int32_t option_type) {
  switch (option_type) {
    case CLEAVE_OPTION_BOOL:
      return ValueType::boolean;
    case CLEAVE_OPTION_INT:
      return ValueType::integer;
    case CLEAVE_OPTION_FLOAT:
      return ValueType::number;
    case CLEAVE_OPTION_ENUM:
      return ValueType::choice;
    case CLEAVE_OPTION_BYTES:
      return ValueType::bytes;
    case CLEAVE_OPTION_DURATION:
      return ValueType::duration;
    case CLEAVE_OPTION_PATH:
      return ValueType::path;
    case CLEAVE_OPTION_STRING_LIST:
      return ValueType::text_list;
    case CLEAVE_OPTION_INT_LIST:
      return ValueType::integer_list;
    default:
      return ValueType::text;
  }
}

}  // namespace

Domain domain_of(const cleave_option& option) {
  Domain domain{value_type(option.type), option.minimum, option.maximum};
  if (option.choices) domain.choices = option.choices;
  if (option.unit) domain.unit = option.unit;
  return domain;
}

Content default_of(const cleave_option& option) {
  const std::string toml = option.default_value ? option.default_value : "";
  if (option.type == CLEAVE_OPTION_PATH && toml == "\"\"") return std::string();
  return checked("default", toml, domain_of(option));
}

OptionValues::OptionValues(const std::string& where, const cleave_option* options, uint32_t count,
                           const PluginTable& table) {
  if (const std::string fault = find_option_table_fault(options, count); !fault.empty())
    throw ConfigError(message(table.origin.text, ": ", where, ": ", fault));
  std::vector<std::string> known;
  for (uint32_t i = 0; i < count; ++i) known.emplace_back(options[i].key);
  for (const RawOption& raw : table.options)
    if (std::find(known.begin(), known.end(), raw.key) == known.end())
      throw ConfigError(message(raw.origin.text, ": ", where, ".", raw.key, ": unknown key; ",
                                unknown_key_advice(where, raw.key, known)));

  for (uint32_t i = 0; i < count; ++i) {
    const auto raw = std::find_if(table.options.begin(), table.options.end(),
                                  [&](const RawOption& option) { return option.key == known[i]; });
    const Content content = raw == table.options.end()
                                ? default_of(options[i])
                                : checked(raw->origin.text + ": " + where + "." + known[i],
                                          raw->toml, domain_of(options[i]));
    values_.push_back(to_value(options[i], content));
    if (!options[i].per_rank) shared_values_ += known[i] + " = " + to_toml(content) + '\n';
  }
  view_ = {values_.data(), static_cast<uint32_t>(values_.size())};
}

const char* OptionValues::keep(const std::string& text) {
  return texts_.emplace_back(text).c_str();
}

cleave_option_value OptionValues::to_value(const cleave_option& option, const Content& content) {
  cleave_option_value value{option.key, option.type, 0, 0, "", nullptr, 0};
  if (const auto* flag = std::get_if<bool>(&content)) value.integer = *flag;
  if (const auto* number = std::get_if<double>(&content)) value.number = *number;
  if (const auto* integer = std::get_if<int64_t>(&content)) {
    value.integer = *integer;
    value.number = static_cast<double>(*integer);
  }
  if (const auto* text = std::get_if<std::string>(&content)) value.text = keep(*text);

  std::vector<cleave_option_value> items;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&content))
    for (const std::string& text : *texts)
      items.push_back({"", CLEAVE_OPTION_STRING, 0, 0, keep(text), nullptr, 0});
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&content))
    for (const int64_t integer : *integers)
      items.push_back(
          {"", CLEAVE_OPTION_INT, integer, static_cast<double>(integer), "", nullptr, 0});
  if (!items.empty()) {
    value.num_items = static_cast<uint32_t>(items.size());
    value.items = items_.emplace_back(std::move(items)).data();
  }
  return value;
}

}  // namespace cleave
