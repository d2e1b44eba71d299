#include "run_config.h"

#include <algorithm>

#include "cleave/error.h"
#include "document.h"
#include "fields.h"
#include "keys.h"
#include "model_folder.h"
#include "relations.h"
#include "value.h"

namespace cleave {
namespace {

/// One load: walks the items in file order and stops at the first that is wrong.
class Loader {
 public:
  Loader(const std::filesystem::path& file, std::vector<Item> items) : items_(std::move(items)) {
    config_.file = file;
    config_.communication.backend.name = backend_name();
  }

  RunConfig load() {
    for (const Item& item : items_) {
      refuse_unavailable(item);
      if (item.path.size() == 1)
        top_level(item);
      else if (item.path[0] == "strategy")
        strategy(item);
      else
        nested(item);
    }
    if (!config_.model.path.empty()) apply_model_folder(config_);
    set_defaults();
    derive_defaults(config_);
    check_relations(config_);
    return std::move(config_);
  }

 private:
  static std::string where(const Item& item) { return item.origin.text + ": " + dotted(item.path); }

  /// Looked up ahead: [communication.<name>] may stand before the line that names the backend.
  std::string backend_name() const {
    for (const Item& item : items_)
      if (item.path == std::vector<std::string>{"communication", "backend"})
        if (const auto* text = std::get_if<std::string>(&item.value.content)) return *text;
    return std::get<std::string>(
        parse_toml_value(std::string(find_key("communication.backend")->fallback.toml))->content);
  }

  void refuse_unavailable(const Item& item) const {
    if (const auto advice = unavailable(item.path[0]))
      throw ConfigError(where(item) + ": not available yet; " + std::string(*advice));
  }

  void top_level(const Item& item) const {
    const std::string& name = item.path[0];
    if (!is_table_name(name)) {
      // a scalar here is most often a key whose [table] line is missing
      if (item.is_table())
        throw ConfigError(where(item) + ": unknown table; " + unknown_table_advice(name));
      throw ConfigError(where(item) + ": unknown key; " + unknown_key_advice("", name, {}));
    }
    if (!item.is_table())
      throw ConfigError(message(where(item), " is ", item.value.kind, "; write a table [", name,
                                name == "strategy" ? ".<name>]" : "]"));
  }

  void nested(const Item& item) {
    const auto& path = item.path;
    if (!is_table_name(path[0]))  // only from --set, a file's table was met before
      throw ConfigError(where(item) + ": unknown table; " + unknown_table_advice(path[0]));
    const std::string name = path[0] + "." + path[1];
    const Key* key = find_key(name);
    if (path.size() == 2 && path[0] == "mesh")
      axis(item);
    else if (path.size() == 2 && key)
      assign(*key, item);
    else if (path[0] == "communication" && !key && (path.size() == 3 || item.is_table()))
      backend(item);
    else if (path[0] == "communication" && path[1] == config_.communication.backend.name)
      throw ConfigError(
          message(where(item), " is ", item.value.kind, "; write a table [", name, "]"));
    else
      throw ConfigError(where(item) + ": unknown key; " +
                        unknown_key_advice(path[0], path[1], keys_of_table(path[0])));
  }

  void assign(const Key& key, const Item& item) {
    set_field(config_, key, check_value(where(item), item.value, key.domain));
    config_.origins[std::string(key.name)] = item.origin;
  }

  void axis(const Item& item) {
    const std::string& name = item.path[1];
    if (!is_plugin_name(name))
      throw ConfigError(where(item) + ": not a name; use letters, digits, - and _ for an axis");
    const Content size = check_value(where(item), item.value, axis_domain());
    config_.mesh[name] = static_cast<int>(std::get<int64_t>(size));
    config_.origins["mesh." + name] = item.origin;
  }

  /// [communication.<backend>] and its keys.
  void backend(const Item& item) {
    PluginTable& plugin = config_.communication.backend;
    const std::string& name = item.path[1];
    if (name == plugin.name) return add_option(item, plugin);
    if (find_key("mesh." + name))
      throw ConfigError(where(item) + ": a backend of its own for an axis is not available yet; " +
                        "remove the table, communication.backend serves all axes");
    throw ConfigError(message(where(item), ": options of a backend that is not in use, ",
                              "communication.backend = ", quote_toml(plugin.name),
                              "; remove the table or rename it to [communication.", plugin.name,
                              "]"));
  }

  void strategy(const Item& item) {
    const std::string& name = item.path[1];
    if (item.path.size() == 2 && !item.is_table())
      throw ConfigError(message(where(item), " is ", item.value.kind,
                                "; a strategy is on when its table is there: write [strategy.",
                                is_plugin_name(name) ? name : "<name>", "]"));
    if (!is_plugin_name(name))
      throw ConfigError(where(item) + ": not a name; use letters, digits, - and _");
    auto& all = config_.strategies;
    auto plugin =
        std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.name == name; });
    if (plugin == all.end()) plugin = all.insert(all.end(), {name, item.origin, {}});
    add_option(item, *plugin);
  }

  /// `item`: a plugin's table itself or a key in it, which the plugin's option table will judge.
  static void add_option(const Item& item, PluginTable& plugin) {
    if (item.path.size() == 2) return;
    const bool is_value = !std::holds_alternative<std::monostate>(item.value.content);
    if (item.path.size() > 3 || !is_value)
      throw ConfigError(
          message(where(item), " is ", item.path.size() > 3 ? "a key of a table" : item.value.kind,
                  "; options of a plugin are true, false, numbers, strings, lists of ",
                  "integers and lists of strings"));
    plugin.options.push_back({item.path[2], to_toml(item.value.content), item.origin});
  }

  void set_defaults() {
    std::vector<const Key*> missing;
    for (const Key& key : keys()) {
      if (config_.origins.count(std::string(key.name))) continue;
      if (key.fallback.kind == Default::Kind::required) missing.push_back(&key);
      set_default(config_, key);
    }
    if (!missing.empty()) refuse_missing(missing);
    PluginTable& backend = config_.communication.backend;
    const auto origin = config_.origins.find("communication.backend");
    backend.origin = origin != config_.origins.end()
                         ? origin->second
                         : Origin{config_.where("communication.backend")};
  }

  /// One message for all that is missing in the first table that lacks something.
  [[noreturn]] void refuse_missing(const std::vector<const Key*>& missing) const {
    const Key& first = *missing.front();
    const std::string table(first.table());
    std::string others;
    for (const Key* key : missing)
      if (key != &first && key->table() == table)
        others += (others.empty() ? "" : ", ") + std::string(key->name);
    const auto header = std::find_if(items_.begin(), items_.end(), [&](const Item& item) {
      return item.path == std::vector<std::string>{table};
    });
    const bool has_table = header != items_.end();
    throw ConfigError(message(
        has_table ? header->origin.text : config_.file.string(), ": ", first.name, " is missing",
        others.empty() ? "" : " (" + others + " too)", "; add ", first.leaf(), " = ... to ",
        has_table ? "[" : "a new table [", table, "]: ", describe(first.domain), ", ", first.doc,
        is_architecture_key(first) ? "; or path = ... to take all from a config.json" : ""));
  }

  std::vector<Item> items_;
  RunConfig config_{};
};

}  // namespace

std::string RunConfig::where(const std::string& dotted_key) const {
  const auto origin = origins.find(dotted_key);
  if (origin == origins.end()) return dotted_key + " (default)";
  return origin->second.text + ": " + dotted_key;
}

RunConfig load_run_config(const std::filesystem::path& file,
                          const std::vector<std::string>& overrides) {
  return Loader(file, read_document(file, overrides)).load();
}

}  // namespace cleave
