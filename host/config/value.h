// Values as TOML writes them, and what a key accepts. The host's keys and plugins' options share
// this.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cleave {

/// monostate: something that no key takes (an array, a date, a table).
using Scalar = std::variant<std::monostate, bool, int64_t, double, std::string>;

struct Value {
  Scalar scalar;
  std::string kind;  ///< for messages: "a string", "an array"
};

enum class ValueType {
  boolean,
  integer,
  number,  ///< an integer is accepted too
  text,
  choice,
  path,  ///< not empty
  name   ///< of a plugin or an axis: letters, digits, - and _
};

/// What a key accepts. Limits are long double because that holds every int64_t exactly.
struct Domain {
  ValueType type;
  long double minimum = 0;
  long double maximum = 0;
  bool minimum_open = false;
  bool maximum_open = false;
  std::string_view choices = {};  ///< "a|b|c"
  std::string_view unit = {};     ///< "seconds"
};

/// The value as the type of `domain`, an integer turned into a double where a number is wanted.
/// Throws ConfigError that begins with `where` ("run.toml:3:1: train.steps").
Scalar check_value(const std::string& where, const Value& value, const Domain& domain);

/// "an integer from 1 to 16", "a number above 0", "one of cosine, linear, constant".
std::string describe(const Domain& domain);

bool is_plugin_name(std::string_view name);
std::vector<std::string> split_choices(std::string_view choices);

/// Loads again to the same value; doubles have the shortest such form.
std::string to_toml(const Scalar& scalar);
std::string quote_toml(std::string_view text);
/// The value that `text` is in TOML, nothing when it isn't one. Tables give their kind only.
std::optional<Value> parse_toml_value(const std::string& text);

}  // namespace cleave
