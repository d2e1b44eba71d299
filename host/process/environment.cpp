#include "environment.h"

#include <algorithm>
#include <charconv>

#include "cleave/error.h"

namespace cleave {
namespace {

/// All of `text` as a number that is not negative.
std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

bool is_set(const Environment& environment, const char* name) {
  return environment(name) != nullptr;
}

int64_t required_number(const Environment& environment, const char* name, int64_t maximum) {
  const char* text = environment(name);
  if (text == nullptr) {
    throw ConfigError(message("environment: ", name,
                              " is not set, though other variables of the "
                              "same launcher are; start the ranks through the launcher"));
  }
  const auto value = parse_number(text);
  if (!value || *value > maximum) {
    throw ConfigError(message("environment: ", name, " = \"", text, "\" is not a number from 0 to ",
                              maximum, "; unset it or start the ranks through the launcher"));
  }
  return *value;
}

std::string first_host(std::string_view node_list) {
  std::string host;
  for (size_t at = 0; at < node_list.size() && node_list[at] != ','; ++at) {
    if (node_list[at] != '[') {
      host += node_list[at];
      continue;
    }
    const size_t close = std::min(node_list.find(']', at), node_list.size());
    const std::string_view ranges = node_list.substr(at + 1, close - at - 1);
    host += ranges.substr(0, ranges.find_first_of(",-"));
    at = close;
  }
  return host;
}

std::optional<int> nth_task_count(std::string_view counts, int64_t index) {
  while (!counts.empty()) {
    const size_t comma = std::min(counts.find(','), counts.size());
    const std::string_view entry = counts.substr(0, comma);
    counts.remove_prefix(std::min(comma + 1, counts.size()));

    const size_t paren = entry.find("(x");
    const auto count = parse_number(entry.substr(0, paren));
    auto repeats = std::optional<int64_t>(1);
    if (paren != std::string_view::npos) {
      if (entry.back() != ')') return std::nullopt;
      repeats = parse_number(entry.substr(paren + 2, entry.size() - paren - 3));
    }
    if (!count || !repeats) return std::nullopt;
    if (index < *repeats) return static_cast<int>(*count);
    index -= *repeats;
  }
  return std::nullopt;
}

}  // namespace cleave
