#include "plugin_probe.h"

#include "cleave/error.h"
#include "plugin_identity.h"
#include "plugin_loader.h"
#include "plugin_note.h"
#include "plugin_search.h"
#include "plugin_trial.h"

namespace cleave {
namespace fs = std::filesystem;
namespace {

/// All that can be said of `file` without running any of its code.
PluginDescription describe(const fs::path& file) {
  PluginDescription description{};
  description.file = file;
  const std::optional<PluginName> name = parse_plugin_file_name(file);
  if (!name) {
    description.error = "its file name is not libcleave_<kind>_<name>.so; rename it";
    return description;
  }
  description.kind = name->kind;
  description.name = name->name;
  try {
    const cleave_identity note = read_plugin_note(file).identity;
    description.error = find_identity_conflict(note, name->kind, name->name, host_abi());
    if (note.magic != CLEAVE_PLUGIN_MAGIC || note.sdk_major != CLEAVE_SDK_MAJOR ||
        note.sdk_minor != CLEAVE_SDK_MINOR)
      return description;  // another SDK's fields stand elsewhere
    description.version = printable(note.version);
    description.abi = note.abi;
  } catch (const ConfigError& error) {
    description.error = error.what();
  }
  return description;
}

std::vector<PluginDescription> probe(const std::vector<fs::path>& files) {
  std::vector<PluginDescription> plugins;
  std::vector<PluginCandidate> candidates;
  for (const fs::path& file : files) {
    plugins.push_back(describe(file));
    if (plugins.back().error.empty()) candidates.push_back({file, read_plugin_note(file).identity});
  }
  const std::vector<PluginTrial> trials = try_plugins(candidates);
  auto trial = trials.begin();
  for (PluginDescription& plugin : plugins) {
    if (!plugin.error.empty()) continue;
    plugin.error = trial->error;
    plugin.options = trial->options;
    ++trial;
  }
  return plugins;
}

/// A run would refuse all files of a name of which there are several.
void mark_duplicates(std::vector<PluginDescription>& plugins) {
  for (PluginDescription& plugin : plugins)
    for (const PluginDescription& other : plugins) {
      if (&other == &plugin || other.kind != plugin.kind || other.name != plugin.name) continue;
      plugin.error = message("there is another file of this name, ", other.file.string(),
                             "; remove one of them, or its folder from CLEAVE_PLUGIN_PATH");
    }
}

}  // namespace

PluginDescription probe_plugin(const fs::path& file) {
  return probe({file}).front();
}

std::vector<PluginDescription> probe_all_plugins() {
  std::vector<PluginDescription> plugins = probe(list_plugin_files(plugin_search_path()));
  mark_duplicates(plugins);
  return plugins;
}

}  // namespace cleave
