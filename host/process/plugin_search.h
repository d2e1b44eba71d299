// Plugin files in a list of folders.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cleave/plugin.h"

namespace cleave {

struct PluginName {
  cleave_plugin_kind kind;
  std::string name;
};

/// What libcleave_<kind>_<name>.so says; nothing for a file with another kind of name.
std::optional<PluginName> parse_plugin_file_name(const std::filesystem::path& file);

/// libcleave_<kind>_<name>.so in `folders`, where it may be reached by several ways. Two files of
/// this name are a ConfigError that names both: which one a run takes must not hang on an order.
std::optional<std::filesystem::path> find_plugin_file(
    const std::vector<std::filesystem::path>& folders, cleave_plugin_kind kind,
    const std::string& name);

/// Why the build that filled one of `folders` left the plugin out, as its CMake files wrote it into
/// libcleave_<kind>_<name>.not-built; empty where there is no such file.
std::string why_not_built(const std::vector<std::filesystem::path>& folders,
                          cleave_plugin_kind kind, const std::string& name);

/// Every plugin file in `folders`, by kind, name and folder; a file that is reached by several ways
/// under one name is there once.
std::vector<std::filesystem::path> list_plugin_files(
    const std::vector<std::filesystem::path>& folders);

/// Names of the plugins of a kind that lie in `folders`, sorted, each once.
std::vector<std::string> list_plugins(const std::vector<std::filesystem::path>& folders,
                                      cleave_plugin_kind kind);

}  // namespace cleave
