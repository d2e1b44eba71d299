#include "value.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cleave/error.h"
#include "toml_text.h"

namespace cleave {
namespace {

std::string show(const Value& value) {
  const std::string text = to_toml(value.scalar);
  return text.empty() ? "" : " = " + text;
}

[[noreturn]] void refuse(const std::string& where, const Value& value, const std::string& why,
                         const Domain& domain) {
  throw ConfigError(message(where, show(value), " ", why, "; expected ", describe(domain)));
}

template <typename Number>
void check_range(const std::string& where, const Value& value, Number number,
                 const Domain& domain) {
  const long double exact = number;
  const bool low = domain.minimum_open ? exact > domain.minimum : exact >= domain.minimum;
  const bool high = domain.maximum_open ? exact < domain.maximum : exact <= domain.maximum;
  // nan and inf: never meant, even where no limit is written
  if (!low || !high || !std::isfinite(exact)) refuse(where, value, "is out of range", domain);
}

void check_text(const std::string& where, const Value& value, const std::string& text,
                const Domain& domain) {
  if (text.find('\0') != std::string::npos) refuse(where, value, "holds a zero byte", domain);
  if (domain.type == ValueType::path && text.empty()) refuse(where, value, "is empty", domain);
  if (domain.type == ValueType::name && !is_plugin_name(text))
    refuse(where, value, "is not a name", domain);
  if (domain.type != ValueType::choice) return;
  const auto choices = split_choices(domain.choices);
  if (std::find(choices.begin(), choices.end(), text) == choices.end())
    refuse(where, value, "is not known", domain);
}

std::string to_text(long double limit) {
  if (limit == std::floor(limit) && std::fabs(limit) < 0x1p63L)
    return std::to_string(static_cast<int64_t>(limit));
  return format_double(static_cast<double>(limit));
}

std::string describe_number(const Domain& domain) {
  std::string text = "a number";
  const bool limited_below = std::isfinite(domain.minimum);
  if (limited_below)
    text += (domain.minimum_open ? " above " : " of at least ") + to_text(domain.minimum);
  if (std::isfinite(domain.maximum))
    text += (limited_below ? " and " : " ") +
            ((domain.maximum_open ? "below " : "at most ") + to_text(domain.maximum));
  return text;
}

}  // namespace

Scalar check_value(const std::string& where, const Value& value, const Domain& domain) {
  const auto wrong_type = [&] { refuse(where, value, "is " + value.kind, domain); };
  switch (domain.type) {
    case ValueType::boolean:
      if (!std::holds_alternative<bool>(value.scalar)) wrong_type();
      return value.scalar;
    case ValueType::integer: {
      const auto* integer = std::get_if<int64_t>(&value.scalar);
      if (!integer) wrong_type();
      check_range(where, value, *integer, domain);
      return value.scalar;
    }
    case ValueType::number: {
      double number = 0;
      if (const auto* integer = std::get_if<int64_t>(&value.scalar))
        number = static_cast<double>(*integer);
      else if (const auto* real = std::get_if<double>(&value.scalar))
        number = *real;
      else
        wrong_type();
      check_range(where, value, number, domain);
      return number;
    }
    default: {
      const auto* text = std::get_if<std::string>(&value.scalar);
      if (!text) wrong_type();
      check_text(where, value, *text, domain);
      return value.scalar;
    }
  }
}

std::string describe(const Domain& domain) {
  const std::string unit = domain.unit.empty() ? "" : " (" + std::string(domain.unit) + ")";
  switch (domain.type) {
    case ValueType::boolean:
      return "true or false";
    case ValueType::integer:
      return "an integer from " + to_text(domain.minimum) + " to " + to_text(domain.maximum) + unit;
    case ValueType::number:
      return describe_number(domain) + unit;
    case ValueType::text:
      return "a string in quotes";
    case ValueType::path:
      return "a path in quotes";
    case ValueType::name:
      return "a name in quotes, of letters, digits, - and _";
    case ValueType::choice:
      break;
  }
  std::string list;
  for (const auto& choice : split_choices(domain.choices))
    list += (list.empty() ? "" : ", ") + quote_toml(choice);
  return "one of " + list;
}

bool is_plugin_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c == '-' || c == '_' || (c < 0x80 && std::isalnum(c));
  });
}

std::vector<std::string> split_choices(std::string_view choices) {
  std::vector<std::string> parts;
  while (!choices.empty()) {
    const size_t end = std::min(choices.find('|'), choices.size());
    parts.emplace_back(choices.substr(0, end));
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return parts;
}

}  // namespace cleave
