#include "compare_config.h"

#include <algorithm>
#include <map>

#include "cleave/error.h"
#include "document.h"
#include "option_table.h"

namespace cleave {
namespace {

constexpr const char* kParts[] = {"backends", "strategies", "transforms", "links"};
// what decides which model is trained on what: the same in all rows
constexpr const char* kSharedTrainKeys[] = {"steps", "global_batch_size", "seed"};

bool is_part(const std::string& name) {
  return std::find(std::begin(kParts), std::end(kParts), name) != std::end(kParts);
}

std::string where(const Item& item) {
  return item.origin.text + ": " + dotted(item.path);
}

const Key* find(std::span<const Key> keys, const std::string& name) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

std::vector<std::string> names_of(std::span<const Key> keys) {
  std::vector<std::string> names;
  for (const Key& key : keys) names.emplace_back(key.name);
  return names;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& names) {
  if (const auto nearest = nearest_name(name, names); !nearest.empty())
    return "did you mean " + nearest + "?";
  std::string all;
  for (const auto& candidate : names) all += (all.empty() ? "" : ", ") + candidate;
  return "known are " + all;
}

/// The entry of that name, at the end where it is new: --set names one at any time.
template <typename Entry>
Entry& entry(std::vector<Entry>& entries, const std::string& name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& other) { return other.name == name; });
  if (found != entries.end()) return *found;
  Entry& added = entries.emplace_back();
  added.name = name;
  return added;
}

/// One load: walks the items in file order and stops at the first that is wrong.
class Loader {
 public:
  Loader(const std::filesystem::path& file, std::vector<Item> items) : items_(std::move(items)) {
    config_.file = file;
  }

  CompareConfig load() {
    for (const Item& item : items_) {
      const std::string& name = item.path[0];
      if (const Key* key = find(compare_keys(), name))
        assign(*key, item);
      else if (is_part(name))
        part(item);
      else if (is_table_name(name))
        shared(item);
      else
        refuse_unknown(item);
    }
    fill();
    return std::move(config_);
  }

 private:
  void assign(const Key& key, const Item& item) {
    if (item.path.size() > 1)
      throw ConfigError(where(item) + ": " + item.path[0] + " has no keys; expected " +
                        describe(key.domain));
    values_[item.path[0]] = check_value(where(item), item.value, key.domain);
    config_.origins[item.path[0]] = item.origin;
  }

  [[noreturn]] static void refuse_unknown(const Item& item) {
    std::vector<std::string> names = names_of(compare_keys());
    names.insert(names.end(), std::begin(kParts), std::end(kParts));
    names.insert(names.end(), table_names().begin(), table_names().end());
    throw ConfigError(where(item) + ": unknown " + (item.is_table() ? "table; " : "key; ") +
                      did_you_mean(item.path[0], names));
  }

  /// A key of the run, for all rows.
  void shared(const Item& item) {
    if (item.path.size() == 1) {
      if (!item.is_table())
        throw ConfigError(message(where(item), " is ", item.value.kind, "; write a table [",
                                  item.path[0], "] of the run's keys"));
      return;
    }
    if (const auto text = override_of(item, 0)) config_.shared.push_back({*text, item.origin});
  }

  void part(const Item& item) {
    const std::string& name = item.path[0];
    if (item.path.size() == 1) {
      if (!item.is_table())
        throw ConfigError(message(where(item), " is ", item.value.kind, "; write a table [", name,
                                  "] of NAME = {...}"));
      return;
    }
    if (item.path.size() == 2 && !item.is_table())
      throw ConfigError(
          message(where(item), " is ", item.value.kind, "; write ",
                  name == "links" ? "NAME = {rate = \"1gbit\"}" : "NAME = {table.key = value}"));
    if (name == "links") return link(item);
    choice(item, name == "backends"     ? config_.backends
                 : name == "strategies" ? config_.strategies
                                        : config_.transforms);
  }

  void choice(const Item& item, std::vector<CompareChoice>& choices) {
    if (item.path.size() == 2) {
      if (item.path[0] == "transforms" && item.path[1] == "none")
        throw ConfigError(where(item) + ": rows without a transform are always there; remove it");
      entry(choices, item.path[1]);
      return;
    }
    check_choice_key(item);
    if (const auto text = override_of(item, 2))
      entry(choices, item.path[1]).overrides.push_back(*text);
  }

  /// `item`: a key of the run below the name of a choice.
  static void check_choice_key(const Item& item) {
    const std::string& table = item.path[2];
    if (table.find('.') != std::string::npos)
      throw ConfigError(where(item) + ": one word; write it without quotes: " + table);
    if (item.path.size() == 3) {
      if (!item.is_table())
        throw ConfigError(where(item) + ": unknown key; " + unknown_key_advice("", table, {}));
      if (!is_table_name(table))
        throw ConfigError(where(item) + ": unknown table; " + unknown_table_advice(table));
    }
    if (table == "strategy" || table == "mesh") return;
    if (table != "communication" && table != "train") refuse_difference(item);
    if (item.path.size() < 4) return;
    const std::string& key = item.path[3];
    const bool is_shared = std::find(std::begin(kSharedTrainKeys), std::end(kSharedTrainKeys),
                                     key) != std::end(kSharedTrainKeys);
    if (table == "train" && is_shared) refuse_difference(item);
    if (item.path.size() == 4 && !item.is_table() && !find_key(table + "." + key))
      throw ConfigError(where(item) + ": unknown key; " +
                        unknown_key_advice(table, key, keys_of_table(table)));
  }

  [[noreturn]] static void refuse_difference(const Item& item) {
    throw ConfigError(message(where(item),
                              ": rows differ in strategies, communication, mesh, micro-batches and "
                              "dtype only, or they would not be comparable; for all rows, write [",
                              item.path[2], "] outside of [", item.path[0], "]"));
  }

  void link(const Item& item) {
    CompareLink& link = entry(config_.links, item.path[1]);
    if (item.path.size() == 2) return;
    const Key* key = find(compare_link_keys(), item.path[2]);
    if (!key || item.path.size() > 3)
      throw ConfigError(where(item) + ": unknown key; " +
                        did_you_mean(item.path[2], names_of(compare_link_keys())));
    const Content content = check_value(where(item), item.value, key->domain);
    link.is_limited = true;
    if (key->name == "nodes")
      link.nodes = std::get<int64_t>(content);
    else
      (key->name == "rate" ? link.rate : link.delay) = std::get<std::string>(content);
  }

  /// "table.key=value" of the part of the path from `first` on; nothing for a table with keys,
  /// which come on their own.
  std::optional<std::string> override_of(const Item& item, size_t first) const {
    const std::vector<std::string> path(item.path.begin() + static_cast<ptrdiff_t>(first),
                                        item.path.end());
    if (item.is_table()) {
      const bool has_keys = std::any_of(items_.begin(), items_.end(), [&](const Item& other) {
        return other.path.size() > item.path.size() &&
               std::equal(item.path.begin(), item.path.end(), other.path.begin());
      });
      if (has_keys || path.size() < 2) return std::nullopt;
      return dotted(path) + "={}";
    }
    if (std::holds_alternative<std::monostate>(item.value.content))
      throw ConfigError(message(where(item), " is ", item.value.kind,
                                "; values are true, false, numbers, strings, lists of integers and "
                                "lists of strings"));
    return dotted(path) + "=" + to_toml(item.value.content);
  }

  void fill() {
    for (const Key& key : compare_keys()) {
      const std::string name(key.name);
      if (values_.count(name)) continue;
      if (key.fallback.kind == Default::Kind::required)
        throw ConfigError(message(config_.file.string(), ": ", name, " is missing; add ", name,
                                  " = ...: ", describe(key.domain), ", ", key.doc));
      values_[name] =
          check_value(name, *parse_toml_value(std::string(key.fallback.toml)), key.domain);
    }
    config_.repetitions = std::get<int64_t>(values_["repetitions"]);
    config_.limit_s = std::get<int64_t>(values_["limit_s"]);
    config_.skipped_steps = std::get<int64_t>(values_["skipped_steps"]);
    config_.directory = std::get<std::string>(values_["directory"]);
    config_.netlab = std::get<std::string>(values_["netlab"]);
    fill_ranks();
    config_.run = config_.file.parent_path() / std::get<std::string>(values_["config"]);
    if (!std::filesystem::exists(config_.run))
      throw ConfigError(message(config_.where("config"), ": ", config_.run.string(),
                                ": no such file; a path is seen from the folder of this file"));
  }

  void fill_ranks() {
    // an empty list has no type of its own
    if (const auto* ranks = std::get_if<std::vector<int64_t>>(&values_["ranks"]))
      config_.ranks = *ranks;
    for (size_t i = 0; i < config_.ranks.size(); ++i)
      if (std::count(config_.ranks.begin(), config_.ranks.end(), config_.ranks[i]) > 1)
        throw ConfigError(message(config_.where("ranks"), ": ", config_.ranks[i],
                                  " is there more than once; remove one"));
    if (config_.ranks.empty())
      throw ConfigError(config_.where("ranks") + " is empty; give world sizes: [2, 4]");
  }

  std::vector<Item> items_;
  std::map<std::string, Content> values_;
  CompareConfig config_{};
};

}  // namespace

std::string CompareConfig::where(const std::string& key) const {
  const auto origin = origins.find(key);
  return origin == origins.end() ? key + " (default)" : origin->second.text + ": " + key;
}

std::vector<std::string> CompareConfig::shared_texts(bool of_strategies) const {
  std::vector<std::string> texts;
  for (const SharedOverride& entry : shared)
    if (entry.text.starts_with("strategy.") == of_strategies) texts.push_back(entry.text);
  return texts;
}

CompareConfig load_compare_config(const std::filesystem::path& file,
                                  const std::vector<std::string>& overrides) {
  return Loader(file, read_document(file, overrides, 1)).load();
}

}  // namespace cleave
