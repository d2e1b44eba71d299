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

/// monostate: something that no key takes (a mixed array, a date, a table). An empty array is a
/// list of strings.
using Content = std::variant<std::monostate, bool, int64_t, double, std::string,
                             std::vector<int64_t>, std::vector<std::string>>;

struct Value {
  Content content;
  std::string kind;  ///< for messages: "a string", "an array"
};

enum class ValueType {
  boolean,
  integer,
  number,  ///< an integer is accepted too
  text,
  choice,
  path,      ///< not empty
  name,      ///< of a plugin or an axis: letters, digits, - and _
  bytes,     ///< an integer or "25 MiB"
  duration,  ///< a number in the domain's unit, or "30 s"; milliseconds once checked
  text_list,
  integer_list  ///< the limits hold for each item
};

/// What a key accepts. Limits are long double because that holds every int64_t exactly.
struct Domain {
  ValueType type;
  long double minimum = 0;
  long double maximum = 0;
  bool minimum_open = false;
  bool maximum_open = false;
  std::string_view choices = {};  ///< "a|b|c"
  std::string_view unit = {};     ///< "seconds"; of a duration: ms, s, min or h
};

/// The value as the type of `domain`: an integer is turned into a double where a number is wanted,
/// "25 MiB" into bytes, "30 s" into milliseconds.
/// Throws ConfigError that begins with `where` ("run.toml:3:1: train.steps").
Content check_value(const std::string& where, const Value& value, const Domain& domain);

/// "an integer from 1 to 16", "a number above 0", "one of cosine, linear, constant".
std::string describe(const Domain& domain);
/// Whether the limits of a Domain mean something.
bool has_range(ValueType type);
/// "1 to 16", "at least 0 and below 1", "4 KiB to 1 TB", "" without limits.
std::string describe_range(const Domain& domain);

bool is_plugin_name(std::string_view name);
std::vector<std::string> split_choices(std::string_view choices);

/// Loads again to the same value; doubles have the shortest such form.
std::string to_toml(const Content& content);
std::string quote_toml(std::string_view text);
/// The value that `text` is in TOML, nothing when it isn't one. Tables give their kind only.
std::optional<Value> parse_toml_value(const std::string& text);

}  // namespace cleave
