// --print-config: every value and where it comes from, as a file that loads again to the same run.
#include <algorithm>

#include "fields.h"
#include "keys.h"
#include "run_config.h"

namespace cleave {
namespace {

constexpr size_t kCommentColumn = 44;

class Printer {
 public:
  void table(const std::string& name) { text_ += (text_.empty() ? "[" : "\n[") + name + "]\n"; }

  void line(std::string assignment, const std::string& origin) {
    assignment.resize(std::max(assignment.size() + 1, kCommentColumn), ' ');
    // an override's text would only repeat the line
    text_ += assignment + "# " + (origin.starts_with("--set") ? "--set" : origin) + '\n';
  }

  void comment(const std::string& text) { text_ += "# " + text + '\n'; }

  void plugin_options(const PluginTable& plugin) {
    for (const auto& option : plugin.options)
      line((is_plugin_name(option.key) ? option.key : quote_toml(option.key)) + " = " + option.toml,
           option.origin.text);
  }

  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

std::string origin_of(const std::string& name, const RunConfig& config) {
  const auto origin = config.origins.find(name);
  return origin == config.origins.end() ? "default" : origin->second.text;
}

void print_mesh(const RunConfig& config, Printer& out) {
  for (const auto& [axis, size] : config.mesh)
    out.line(axis + " = " + std::to_string(size), origin_of("mesh." + axis, config));
  if (!config.mesh.count("data")) out.comment("data: inferred from the number of ranks");
}

void print_options(const PluginTable& backend, Printer& out) {
  if (backend.options.empty()) return;
  out.table("communication." + backend.name);
  out.plugin_options(backend);
}

void print_backends(const RunConfig& config, Printer& out) {
  const CommunicationConfig& communication = config.communication;
  for (const auto& [axis, backends] : communication.axes) {
    const std::string table = "communication." + axis;
    out.table(table);
    if (!backends.backend.empty())
      out.line("backend = " + quote_toml(backends.backend), origin_of(table + ".backend", config));
    if (!backends.inner_backend.empty())
      out.line("inner_backend = " + quote_toml(backends.inner_backend),
               origin_of(table + ".inner_backend", config));
  }
  print_options(communication.backend, out);
  for (const PluginTable& backend : communication.axis_backends) print_options(backend, out);
}

void print_strategies(const RunConfig& config, Printer& out) {
  for (const auto& strategy : config.strategies) {
    out.table("strategy." + strategy.name);
    out.plugin_options(strategy);
  }
}

}  // namespace

std::string print_run_config(const RunConfig& config) {
  Printer out;
  for (const auto table : table_names()) {
    if (table == "strategy") {
      print_strategies(config, out);
      continue;
    }
    if (table == "checkpoint" && !config.checkpoint.is_on()) {
      out.comment("[checkpoint]: not set, nothing is saved");
      continue;
    }
    out.table(std::string(table));
    if (table == "mesh") print_mesh(config, out);
    for (const Key& key : keys()) {
      if (key.table() != table || table == "mesh") continue;
      const std::string value = to_toml(read_field(config, key));
      if (value.empty())
        out.comment(std::string(key.leaf()) + ": not set");
      else
        out.line(std::string(key.leaf()) + " = " + value, origin_of(std::string(key.name), config));
    }
    if (table == "communication") print_backends(config, out);
  }
  return std::move(out).text();
}

}  // namespace cleave
