// A first load of a plugin whose code nobody has run yet.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plugin_probe.h"

namespace cleave {

struct PluginCandidate {
  std::filesystem::path file;
  cleave_identity note;
};

struct PluginTrial {
  std::string error;  ///< why the plugin can't be used; "": it can
  std::vector<OptionDescription> options;
};

/// Loads each file in a child process, calls its entry, compares that with the note and copies its
/// option table. Whatever a plugin does there, crash, exit or hang for 20 s, becomes a text; those
/// behind it get a new child. A child costs 5 ms and each plugin in it 0.3 ms, so ask for all at
/// once.
std::vector<PluginTrial> try_plugins(const std::vector<PluginCandidate>& candidates);

}  // namespace cleave
