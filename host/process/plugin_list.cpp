#include "plugin_list.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <string>
#include <vector>

#include "plugin_identity.h"
#include "plugin_loader.h"
#include "plugin_probe.h"

namespace cleave {
namespace {

using Row = std::array<std::string, 5>;

void print_table(std::ostream& out, const std::vector<Row>& rows) {
  std::array<size_t, 5> widths{};
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const Row& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i)
      out << std::left << std::setw(static_cast<int>(widths[i] + 2)) << row[i];
    out << row.back() << "\n";
  }
}

void print_usable(std::ostream& out, const std::vector<PluginDescription>& plugins) {
  std::vector<Row> rows = {{"KIND", "NAME", "VERSION", "BUILT FOR", "FILE"}};
  for (const PluginDescription& plugin : plugins)
    if (plugin.error.empty())
      rows.push_back({to_string(plugin.kind), plugin.name, plugin.version,
                      describe_build(plugin.abi), plugin.file.string()});
  if (rows.size() > 1) print_table(out, rows);
}

void print_failed(std::ostream& out, const std::vector<PluginDescription>& plugins) {
  for (const PluginDescription& plugin : plugins)
    if (!plugin.error.empty())
      out << to_string(plugin.kind) << " plugin " << plugin.name << " (" << plugin.file.string()
          << "): " << plugin.error << "\n";
}

}  // namespace

void print_plugins(std::ostream& out, bool failed) {
  const std::vector<PluginDescription> plugins = probe_all_plugins();
  const auto num_failed = std::count_if(plugins.begin(), plugins.end(),
                                        [](const auto& plugin) { return !plugin.error.empty(); });
  if (failed) {
    print_failed(out, plugins);
    if (num_failed == 0) out << "all " << plugins.size() << " plugins can be used\n";
    return;
  }
  print_usable(out, plugins);
  if (plugins.empty()) {
    out << "there are no plugins; CLEAVE_PLUGIN_PATH adds folders to these:\n";
    for (const auto& folder : plugin_search_path()) out << folder.string() << "\n";
  }
  if (num_failed > 0)
    out << num_failed << (num_failed == 1 ? " file" : " files")
        << " can't be used; host plugins --failed says why\n";
}

}  // namespace cleave
