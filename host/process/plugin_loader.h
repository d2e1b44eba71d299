// Finds plugins, compares their identity with the host's, loads and creates them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cleave/plugin.h"
#include "config/option_table.h"
#include "config/run_config.h"

namespace cleave {

/// A loaded plugin; the library stays loaded until the process ends.
struct LoadedPlugin {
  const cleave_plugin* descriptor;
  std::filesystem::path file;
};

/// CLEAVE_PLUGIN_PATH's folders, then "<program>/../plugins" and "<program>/../lib/cleave/plugins",
/// then the program's own folder.
std::vector<std::filesystem::path> plugin_search_path();

/// Loads libcleave_<kind>_<name>.so through Boost.DLL (now, local, no-delete) and compares magic,
/// struct size, SDK version, kind, name and ABI field by field. Throws ConfigError: not found
/// (folders searched, the plugins that are there, the nearest name), the linker's own text, or the
/// fields that differ with both values. `origin` begins the message.
LoadedPlugin load_plugin(cleave_plugin_kind kind, const std::string& name, const Origin& origin);

}  // namespace cleave
