// Plugin files in a list of folders.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cleave/plugin.h"

namespace cleave {

/// libcleave_<kind>_<name>.so in the first folder that has it.
std::optional<std::filesystem::path> find_plugin_file(
    const std::vector<std::filesystem::path>& folders, cleave_plugin_kind kind,
    const std::string& name);

/// Names of the plugins of a kind that lie in `folders`, sorted, each once.
std::vector<std::string> list_plugins(const std::vector<std::filesystem::path>& folders,
                                      cleave_plugin_kind kind);

}  // namespace cleave
