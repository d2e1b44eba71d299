// What the host's keys and a plugin's options are, told to people (text, Markdown) and to programs
// (JSON). All of it comes from the tables that also validate.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "keys.h"
#include "process/plugin_probe.h"

namespace cleave {

/// What `host describe` was asked for.
struct DescribeRequest {
  std::string plugin;  ///< "<name>" or "<kind>.<name>"; empty: the host's own keys
  bool json = false;
  bool markdown = false;  ///< the whole reference page
};

/// A key of the host or an option of a plugin, in words.
struct KeyRow {
  std::string key;   ///< without its table
  std::string type;  ///< bool, int, float, bytes, duration, string, enum, path, name, "list of .."
  std::string fallback;  ///< as TOML, or "required", "derived" (the doc says from what), "none"
  std::string accepts;   ///< "1 to 16", "cosine, linear", "" for anything
  std::string unit;
  std::string doc;
};

KeyRow row_of(const Key& key);
std::vector<KeyRow> rows_of_table(std::string_view table);
std::vector<KeyRow> rows_of_plugin(const PluginDescription& plugin);

/// Aligned tables, one key a line. This and what follows throws ConfigError for a plugin that can't
/// be used, or whose option table has a fault.
std::string describe_host();
std::string describe_plugin(const PluginDescription& plugin);

/// {"keys": [{"key": "train.steps", "type": "int", "required": true, "minimum": 1, ...}]}; ends
/// with a line break. "default" stands there when the table has one, limits when they are finite.
std::string describe_host_json();
/// {"kind": "strategy", "name": ..., "version": ..., "file": ..., "abi": {...}, "options": [...]}.
std::string describe_plugin_json(const PluginDescription& plugin);

/// docs/reference.md: all keys and all of `plugins`, in an order that does not depend on theirs.
std::string reference_page(std::vector<PluginDescription> plugins);

}  // namespace cleave
