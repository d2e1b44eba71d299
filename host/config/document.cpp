#include "document.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "cleave/error.h"
#include "toml_text.h"

namespace cleave {
namespace {

constexpr size_t kLargestFileBytes = 1 << 20;

/// An item and where it stands, to sort by: toml++ yields tables alphabetically.
struct PlacedItem {
  toml::source_position position;
  Item item;
};

std::string read_text(const std::filesystem::path& file) {
  const std::string name = file.empty() ? "\"\"" : file.string();
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw ConfigError(name + ": is a directory; give the TOML file of the run");
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    if (errno == ENOENT) throw ConfigError(name + ": no such file; check the path after --config");
    throw ConfigError(
        message(name, ": can't be read: ", std::strerror(errno), "; check its permissions"));
  }
  std::string text(kLargestFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) throw ConfigError(name + ": can't be read; check the disk");
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kLargestFileBytes)
    throw ConfigError(name + ": larger than 1 MiB; give the TOML file of the run");
  return text;
}

/// Without the space around it; empty when it can't be shown in a terminal.
std::string line_of(const std::string& text, uint32_t line) {
  size_t begin = 0;
  for (uint32_t i = 1; i < line && begin != std::string::npos; ++i) {
    begin = text.find('\n', begin);
    if (begin != std::string::npos) ++begin;
  }
  if (begin == std::string::npos) return "";
  const std::string whole = text.substr(begin, text.find('\n', begin) - begin);
  const size_t first = whole.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  const std::string trimmed = whole.substr(first, whole.find_last_not_of(" \t\r") + 1 - first);
  const bool printable = std::all_of(trimmed.begin(), trimmed.end(),
                                     [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
  return printable ? trimmed : "";
}

toml::table parse_file(const std::filesystem::path& file, const std::string& text) {
  try {
    return toml::parse(std::string_view(text));
  } catch (const toml::parse_error& error) {
    constexpr size_t kLongestQuote = 80;
    const auto position = error.source().begin;
    const std::string line = line_of(text, position.line).substr(0, kLongestQuote);
    throw ConfigError(message(file.string(), ":", position.line, ":", position.column,
                              ": not valid TOML: ", error.description(),
                              line.empty() ? "; correct this line" : "; correct the line: ", line));
  }
}

/// Appends the keys below `table` in preorder.
void flatten(const toml::table& table, std::vector<std::string>& path,
             std::vector<PlacedItem>& items) {
  for (auto&& [key, node] : table) {
    const toml::table* child = node.as_table();
    // a [header] begins at its bracket; everything else at its key
    const bool has_header = child && !child->is_inline();
    const auto position = has_header ? node.source().begin : key.source().begin;
    path.emplace_back(key.str());
    items.push_back({position, {path, value_of(node), {}}});
    if (child) flatten(*child, path, items);
    path.pop_back();
  }
}

bool begins_with(const std::vector<std::string>& path, const std::vector<std::string>& prefix) {
  return path.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

std::vector<std::string> parse_key(const std::string& text, const std::string& origin,
                                   size_t shortest_key) {
  std::vector<std::string> path;
  try {
    // a line break would let the text open a table of its own
    const bool is_line = text.find('\n') == std::string::npos;
    const toml::table table = toml::parse(std::string_view(is_line ? text + " = 0" : ""));
    for (const toml::table* level = &table; level && !level->empty();) {
      path.emplace_back(level->begin()->first.str());
      level = level->begin()->second.as_table();
    }
  } catch (const toml::parse_error&) {
  }
  if (path.size() < shortest_key)
    throw ConfigError(message(origin, ": ", quote_toml(text), " is not table.key",
                              "; write --set table.key=value, e.g. --set train.steps=100"));
  return path;
}

/// `--set a.b=value`: replaces the key, or the whole table, and goes to the end of the list.
void apply_override(const std::string& assignment, size_t shortest_key, std::vector<Item>& items) {
  Origin origin{"--set " + assignment};
  std::replace(origin.text.begin(), origin.text.end(), '\n', ' ');  // messages are one line
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos)
    throw ConfigError(origin.text + ": no = in it; write --set table.key=value");
  std::vector<std::string> path =
      parse_key(assignment.substr(0, equals), origin.text, shortest_key);
  const std::string text = assignment.substr(equals + 1);

  std::erase_if(items, [&](const Item& item) { return begins_with(item.path, path); });
  const auto value = parse_toml_value(text);
  items.push_back({path, value ? *value : Value{text, "a string"}, origin});
  if (!value || value->kind != "a table") return;
  const toml::table parsed = toml::parse(std::string_view("value = " + text));
  std::vector<PlacedItem> children;
  flatten(*parsed["value"].as_table(), path, children);
  for (auto& child : children) {
    child.item.origin = origin;
    items.push_back(std::move(child.item));
  }
}

}  // namespace

std::vector<Item> read_document(const std::filesystem::path& file,
                                const std::vector<std::string>& overrides, size_t shortest_key) {
  const std::string text = read_text(file);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw ConfigError(file.string() + ": the file is empty; write the run's tables into it");
  const toml::table table = parse_file(file, text);
  std::vector<std::string> path;
  std::vector<PlacedItem> placed;
  flatten(table, path, placed);
  std::stable_sort(placed.begin(), placed.end(), [](const PlacedItem& a, const PlacedItem& b) {
    return a.position < b.position;
  });
  std::vector<Item> items;
  for (auto& [position, item] : placed) {
    item.origin.text = message(file.string(), ":", position.line, ":", position.column);
    items.push_back(std::move(item));
  }
  for (const auto& assignment : overrides) apply_override(assignment, shortest_key, items);
  return items;
}

std::vector<Item> read_overrides(const std::vector<std::string>& overrides) {
  std::vector<Item> items;
  for (const auto& assignment : overrides) apply_override(assignment, 2, items);
  return items;
}

std::string dotted(const std::vector<std::string>& path) {
  std::string text;
  for (const auto& part : path)
    text += (text.empty() ? "" : ".") + (is_plugin_name(part) ? part : quote_toml(part));
  return text;
}

}  // namespace cleave
