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

/// Where plugins are looked for: CLEAVE_PLUGIN_PATH's folders, "<program>/../plugins" and
/// "<program>/../lib/cleave/plugins", then the program's own folder.
std::vector<std::filesystem::path> plugin_search_path();

/// Finds libcleave_<kind>_<name>.so and makes sure of it before its code can do harm: reads its ELF
/// note and compares every field with this program, tries it out in a child process (once per
/// process and version of the file), loads it through Boost.DLL (now, local, no-delete) and
/// compares its descriptor with the note. Threads may call it at once; loads wait for each other.
///
/// Throws ConfigError, which `origin` begins: not found (folders searched, the plugins that are
/// there, the nearest name), two files of this name, the fields that differ with both values, the
/// linker's own text, or what became of the trial; each with what to do.
LoadedPlugin load_plugin(cleave_plugin_kind kind, const std::string& name, const Origin& origin);

/// Tries out all plugins of a run in one child process, for load_plugin, which otherwise needs one
/// for each. Says nothing of those that can't be used: load_plugin does.
void prepare_plugins(const RunConfig& config);

}  // namespace cleave
