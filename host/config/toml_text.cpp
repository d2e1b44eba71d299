#include "toml_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace cleave {
namespace {

struct TomlWriter {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(int64_t integer) const { return std::to_string(integer); }
  std::string operator()(double number) const { return format_double(number); }
  std::string operator()(const std::string& text) const { return quote_toml(text); }
  template <typename T>
  std::string operator()(const std::vector<T>& items) const {
    std::string list = "[";
    for (const T& item : items) list += (list.size() > 1 ? ", " : "") + (*this)(item);
    return list + "]";
  }
};

/// The elements when all are of the TOML type that holds a T.
template <typename T>
std::optional<std::vector<T>> elements_of(const toml::array& array) {
  std::vector<T> items;
  for (const toml::node& node : array) {
    const auto* item = node.as<T>();
    if (!item) return std::nullopt;
    items.push_back(item->get());
  }
  return items;
}

Content content_of(const toml::array& array) {
  if (auto texts = elements_of<std::string>(array)) return std::move(*texts);
  if (auto integers = elements_of<int64_t>(array)) return std::move(*integers);
  return {};
}

}  // namespace

Value value_of(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return {flag->get(), "a boolean"};
  if (const auto* integer = node.as_integer()) return {integer->get(), "an integer"};
  if (const auto* number = node.as_floating_point()) return {number->get(), "a float"};
  if (const auto* text = node.as_string()) return {text->get(), "a string"};
  if (node.is_array_of_tables()) return {{}, "an array of tables"};
  if (const auto* array = node.as_array()) return {content_of(*array), "an array"};
  if (node.is_table()) return {{}, "a table"};
  return {{}, "a date or time"};
}

std::string format_double(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string to_toml(const Content& content) {
  return std::visit(TomlWriter{}, content);
}

std::string quote_toml(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (code < 0x20 || code == 0x7f) {
      quoted += {'\\', 'u', '0', '0', kHex[code >> 4], kHex[code & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::optional<Value> parse_toml_value(const std::string& text) {
  try {
    const toml::table table = toml::parse(std::string_view("value = " + text));
    // a second line would be a second key, not a part of the value
    if (table.size() == 1) return value_of(*table.get("value"));
  } catch (const toml::parse_error&) {
  }
  return std::nullopt;
}

}  // namespace cleave
