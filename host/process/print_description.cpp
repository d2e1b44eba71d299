#include "print_description.h"

#include "cleave/error.h"
#include "config/option_table.h"
#include "plugin_identity.h"
#include "plugin_loader.h"
#include "plugin_search.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;

struct Found {
  std::string name;  ///< "<kind>.<name>"
  fs::path file;
};

/// The plugins that `wanted` may mean: a name with its kind is one, a bare name up to two.
std::vector<Found> find_plugins(const std::string& wanted, std::vector<std::string>& present) {
  std::vector<Found> found;
  const std::vector<fs::path> folders = plugin_search_path();
  for (const cleave_plugin_kind kind : {CLEAVE_COMMUNICATION, CLEAVE_STRATEGY}) {
    for (const std::string& name : list_plugins(folders, kind)) {
      const std::string full = message(to_string(kind), ".", name);
      present.push_back(full);
      if (wanted == name || wanted == full)
        found.push_back({full, *find_plugin_file(folders, kind, name)});
    }
  }
  return found;
}

std::string nearest_plugin(const std::string& wanted, const std::vector<std::string>& present) {
  std::vector<std::string> names = present;
  for (const std::string& full : present) names.push_back(full.substr(full.find('.') + 1));
  return nearest_name(wanted, names);
}

Found find_plugin(const std::string& wanted) {
  std::vector<std::string> present;
  const std::vector<Found> found = find_plugins(wanted, present);
  const std::string where = "host describe " + wanted + ": ";
  if (found.size() > 1)
    throw ConfigError(where + "there are two of that name; write " + found[0].name + " or " +
                      found[1].name);
  if (found.size() == 1) return found[0];
  const std::string nearest = nearest_plugin(wanted, present);
  throw ConfigError(where + "no such plugin; " +
                    (nearest.empty() ? "host plugins lists those that are found"
                                     : "did you mean " + nearest + "?"));
}

}  // namespace

void print_description(const DescribeRequest& request, std::ostream& out) {
  if (request.markdown) {
    out << reference_page(probe_all_plugins());
  } else if (request.plugin.empty()) {
    out << (request.json ? describe_host_json() : describe_host());
  } else {
    const PluginDescription plugin = probe_plugin(find_plugin(request.plugin).file);
    out << (request.json ? describe_plugin_json(plugin) : describe_plugin(plugin));
  }
}

}  // namespace cleave
