#include "value.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cleave/error.h"
#include "quantity.h"
#include "toml_text.h"

namespace cleave {
namespace {

std::string show(const Value& value) {
  const std::string text = to_toml(value.content);
  return text.empty() ? "" : " = " + text;
}

[[noreturn]] void refuse(const std::string& where, const Value& value, const std::string& why,
                         const Domain& domain) {
  throw ConfigError(message(where, show(value), " ", why, "; expected ", describe(domain)));
}

template <typename Number>
void check_range(const std::string& where, const Value& value, Number number, const Domain& domain,
                 long double scale = 1) {
  const long double exact = number;
  const long double minimum = domain.minimum * scale, maximum = domain.maximum * scale;
  const bool low = domain.minimum_open ? exact > minimum : exact >= minimum;
  const bool high = domain.maximum_open ? exact < maximum : exact <= maximum;
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

/// The content as a T.
template <typename T>
const T& expect(const std::string& where, const Value& value, const Domain& domain) {
  const T* content = std::get_if<T>(&value.content);
  if (!content) refuse(where, value, "is " + value.kind, domain);
  return *content;
}

double check_number(const std::string& where, const Value& value, const Domain& domain) {
  const auto* integer = std::get_if<int64_t>(&value.content);
  const double number =
      integer ? static_cast<double>(*integer) : expect<double>(where, value, domain);
  check_range(where, value, number, domain);
  return number;
}

int64_t check_bytes(const std::string& where, const Value& value, const Domain& domain) {
  const auto* integer = std::get_if<int64_t>(&value.content);
  const auto bytes = integer ? *integer : parse_bytes(expect<std::string>(where, value, domain));
  if (!bytes) refuse(where, value, "is not a size in whole bytes", domain);
  check_range(where, value, *bytes, domain);
  return *bytes;
}

/// Milliseconds of a plain number in the domain's unit; nothing where they are not whole.
std::optional<int64_t> scale_duration(double number, int64_t scale) {
  constexpr double kRounding = 1e-6;  // 0.3 s is 300 ms
  const double ms = number * static_cast<double>(scale);
  const double whole = std::round(ms);
  if (!(std::fabs(whole) < 0x1p63) || std::fabs(ms - whole) > kRounding) return std::nullopt;
  return static_cast<int64_t>(whole);
}

int64_t check_duration(const std::string& where, const Value& value, const Domain& domain) {
  const int64_t scale = milliseconds_of_unit(domain.unit).value_or(1);
  std::optional<int64_t> ms;
  int64_t product = 0;
  if (const auto* integer = std::get_if<int64_t>(&value.content)) {
    if (!__builtin_mul_overflow(*integer, scale, &product)) ms = product;
  } else if (const auto* number = std::get_if<double>(&value.content)) {
    ms = scale_duration(*number, scale);
  } else {
    ms = parse_duration_ms(expect<std::string>(where, value, domain));
  }
  if (!ms) refuse(where, value, "is not a time in whole milliseconds", domain);
  check_range(where, value, *ms, domain, static_cast<long double>(scale));
  return *ms;
}

/// An empty array has no type of its own.
template <typename T>
std::vector<T> check_list(const std::string& where, const Value& value, const Domain& domain) {
  const auto* texts = std::get_if<std::vector<std::string>>(&value.content);
  if (texts && texts->empty()) return {};
  const auto& items = expect<std::vector<T>>(where, value, domain);
  for (const T& item : items) {
    if constexpr (std::is_same_v<T, std::string>)
      check_text(where, value, item, domain);
    else
      check_range(where, value, item, domain);
  }
  return items;
}

std::string to_text(long double limit, const Domain& domain) {
  if (limit != std::floor(limit) || std::fabs(limit) >= 0x1p63L)
    return format_double(static_cast<double>(limit));
  const auto integer = static_cast<int64_t>(limit);
  return domain.type == ValueType::bytes ? format_bytes(integer) : std::to_string(integer);
}

std::string describe_choices(const Domain& domain) {
  std::string list;
  for (const auto& choice : split_choices(domain.choices))
    list += (list.empty() ? "" : ", ") + quote_toml(choice);
  return "one of " + list;
}

/// "a number" + " from 1 to 2", " of at least 0", " above 0" or nothing.
std::string with_range(const std::string& noun, const Domain& domain) {
  const std::string range = describe_range(domain);
  if (range.empty()) return noun;
  const bool is_closed = range.find(" to ") != std::string::npos;
  return noun + (is_closed ? " from " : range.starts_with("at") ? " of " : " ") + range;
}

}  // namespace

Content check_value(const std::string& where, const Value& value, const Domain& domain) {
  switch (domain.type) {
    case ValueType::boolean:
      return expect<bool>(where, value, domain);
    case ValueType::integer:
      check_range(where, value, expect<int64_t>(where, value, domain), domain);
      return value.content;
    case ValueType::number:
      return check_number(where, value, domain);
    case ValueType::bytes:
      return check_bytes(where, value, domain);
    case ValueType::duration:
      return check_duration(where, value, domain);
    case ValueType::text_list:
      return check_list<std::string>(where, value, domain);
    case ValueType::integer_list:
      return check_list<int64_t>(where, value, domain);
    case ValueType::text:
    case ValueType::choice:
    case ValueType::path:
    case ValueType::name:
      break;
  }
  check_text(where, value, expect<std::string>(where, value, domain), domain);
  return value.content;
}

bool has_range(ValueType type) {
  return type == ValueType::integer || type == ValueType::number || type == ValueType::bytes ||
         type == ValueType::duration || type == ValueType::integer_list;
}

std::string describe_range(const Domain& domain) {
  if (!has_range(domain.type)) return "";
  const bool has_minimum = std::isfinite(domain.minimum),
             has_maximum = std::isfinite(domain.maximum);
  const std::string minimum = to_text(domain.minimum, domain);
  const std::string maximum = to_text(domain.maximum, domain);
  if (has_minimum && has_maximum && !domain.minimum_open && !domain.maximum_open)
    return minimum + " to " + maximum;
  std::string text;
  if (has_minimum) text = (domain.minimum_open ? "above " : "at least ") + minimum;
  if (has_minimum && has_maximum) text += " and ";
  if (has_maximum) text += (domain.maximum_open ? "below " : "at most ") + maximum;
  return text;
}

std::string describe(const Domain& domain) {
  const std::string unit = domain.unit.empty() ? "" : " (" + std::string(domain.unit) + ")";
  switch (domain.type) {
    case ValueType::boolean:
      return "true or false";
    case ValueType::integer:
      return with_range("an integer", domain) + unit;
    case ValueType::number:
      return with_range("a number", domain) + unit;
    case ValueType::text:
      return "a string in quotes";
    case ValueType::path:
      return "a path in quotes";
    case ValueType::name:
      return "a name in quotes, of letters, digits, - and _";
    case ValueType::choice:
      return describe_choices(domain);
    case ValueType::bytes:
      return with_range("a number of bytes", domain) + R"(, or a text like "4 KiB" or "1.5 GB")";
    case ValueType::duration:
      return with_range(message("a number of ", domain.unit), domain) +
             R"(, or a text like "200 ms", "30 s" or "5 min")";
    case ValueType::text_list:
      return "a list of strings";
    case ValueType::integer_list:
      return with_range("a list of integers", domain) + unit;
  }
  return "";
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
