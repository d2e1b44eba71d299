#include "run_config.h"

#include <algorithm>

#include "cleave/error.h"
#include "document.h"
#include "fields.h"
#include "keys.h"
#include "model_folder.h"
#include "option_table.h"
#include "relations.h"
#include "value.h"

namespace cleave {
namespace {

/// One load: walks the items in file order and stops at the first that is wrong.
class Loader {
 public:
  Loader(const std::filesystem::path& file, std::vector<Item> items) : items_(std::move(items)) {
    config_.file = file;
    look_ahead();
  }

  RunConfig load() {
    for (const Item& item : items_) {
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

  /// [communication.<name>] may stand before the line that makes its name an axis or a backend.
  void look_ahead() {
    set_default(config_, *find_key("communication.backend"));
    axes_ = keys_of_table("mesh");
    for (const Item& item : items_) {
      const auto* text = std::get_if<std::string>(&item.value.content);
      if (item.path == std::vector<std::string>{"communication", "backend"} && text)
        config_.communication.backend.name = *text;
      if (item.path.size() == 2 && item.path[0] == "mesh") axes_.push_back(item.path[1]);
    }
    for (const Item& item : items_) {
      const auto* text = std::get_if<std::string>(&item.value.content);
      if (text && axis_key(item) && !backend_in_use(*text))
        config_.communication.axis_backends.push_back({*text, item.origin, {}});
    }
  }

  bool is_axis(const std::string& name) const {
    return std::find(axes_.begin(), axes_.end(), name) != axes_.end();
  }

  /// The key of [communication.<axis>] that `item` sets.
  const Key* axis_key(const Item& item) const {
    const auto& path = item.path;
    if (path.size() < 3 || path[0] != "communication" || !is_axis(path[1])) return nullptr;
    return find_key(message(kAxisTable, '.', path[2]));
  }

  /// `communication.tensor = "nccl"` instead of a table.
  bool names_axis_backend(const Item& item) const {
    return is_axis(item.path[1]) && std::holds_alternative<std::string>(item.value.content);
  }

  PluginTable* backend_in_use(const std::string& name) {
    CommunicationConfig& communication = config_.communication;
    if (communication.backend.name == name) return &communication.backend;
    auto& others = communication.axis_backends;
    const auto found =
        std::find_if(others.begin(), others.end(), [&](const auto& p) { return p.name == name; });
    return found == others.end() ? nullptr : &*found;
  }

  void top_level(const Item& item) {
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
    config_.origins[name] = item.origin;
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
    else if (path[0] == "communication" && !key && (path.size() > 2 || item.is_table()))
      communication_table(item);
    else if (path[0] == "communication" && (backend_in_use(path[1]) || names_axis_backend(item)))
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

  /// [communication.<axis>] or [communication.<backend>] and its keys.
  void communication_table(const Item& item) {
    const std::string& name = item.path[1];
    if (is_axis(name)) return axis_backends(item);
    if (PluginTable* plugin = backend_in_use(name)) return add_option(item, *plugin);
    refuse_communication_table(item);
  }

  [[noreturn]] void refuse_communication_table(const Item& item) const {
    const std::string& main = config_.communication.backend.name;
    std::vector<std::string> known = axes_;
    known.push_back(main);
    std::string others;
    for (const PluginTable& other : config_.communication.axis_backends) {
      known.push_back(other.name);
      others += (others.empty() ? ", axes use " : ", ") + quote_toml(other.name);
    }
    if (const auto nearest = nearest_name(item.path[1], known); !nearest.empty())
      throw ConfigError(message(where(item), ": neither an axis of the mesh nor a backend in use; ",
                                "did you mean [communication.", nearest, "]?"));
    throw ConfigError(message(where(item), ": options of a backend that is not in use, ",
                              "communication.backend = ", quote_toml(main), others,
                              "; remove the table or rename it to [communication.", main, "]"));
  }

  void axis_backends(const Item& item) {
    if (item.path.size() == 2) return;
    const std::string& axis = item.path[1];
    const Key* key = axis_key(item);
    if (!key)
      throw ConfigError(
          where(item) + ": unknown key; " +
          unknown_key_advice("communication." + axis, item.path[2], keys_of_table(kAxisTable)));
    if (item.path.size() > 3)
      throw ConfigError(where(item) + " is a key of a table; expected " + describe(key->domain));
    const Content name = check_value(where(item), item.value, key->domain);
    AxisBackends& backends = config_.communication.axes[axis];
    (key->leaf() == "backend" ? backends.backend : backends.inner_backend) =
        std::get<std::string>(name);
    config_.origins[dotted(item.path)] = item.origin;
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
  std::vector<std::string> axes_;  // that may have a table in [communication]
  RunConfig config_{};
};

}  // namespace

const PluginTable& CommunicationConfig::backend_of(std::string_view axis) const {
  const size_t dot = axis.find('.');
  const auto written = axes.find(std::string(axis.substr(0, dot)));
  if (written == axes.end()) return backend;
  const bool is_inner = dot != std::string_view::npos && axis.substr(dot) == ".inner";
  const auto& [whole, inner] = written->second;
  const std::string& name = is_inner && !inner.empty() ? inner : whole;
  if (name.empty() || name == backend.name) return backend;
  const auto found = std::find_if(axis_backends.begin(), axis_backends.end(),
                                  [&](const PluginTable& table) { return table.name == name; });
  CLEAVE_CHECK(found != axis_backends.end(), "no backend ", name, " for the axis ", axis);
  return *found;
}

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
