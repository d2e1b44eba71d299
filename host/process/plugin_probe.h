// Looking at a plugin without trusting it: in a child process, so that a static initialiser that
// throws, hangs or aborts ends the child and becomes a text.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cleave/plugin.h"

namespace cleave {

/// A cleave_option with strings of its own.
struct OptionDescription {
  std::string key;
  int32_t type;
  std::string default_value;
  double minimum;
  double maximum;
  std::string choices;
  std::string unit;
  std::string doc;
  bool same_on_all_ranks;
};

/// What a plugin file says of itself.
struct PluginDescription {
  std::filesystem::path file;
  std::string error;  ///< why it can't be used; empty: it can
  cleave_plugin_kind kind;
  std::string name;
  std::string version;
  cleave_abi abi;
  std::vector<OptionDescription> options;
};

/// Loads `file` in a child process (killed after 20 s) and returns what its entry says.
PluginDescription probe_plugin(const std::filesystem::path& file);

/// All plugin files on the search path, probed; sorted by kind and name.
std::vector<PluginDescription> probe_all_plugins();

}  // namespace cleave
