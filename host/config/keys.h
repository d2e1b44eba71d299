// The one table of keys: parsing, defaults, ranges, messages and --print-config all come from it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "run_config.h"
#include "value.h"

namespace cleave {

template <typename T>
using Access = T& (*)(RunConfig&);

/// Where the value goes; monostate: by axis, into RunConfig::mesh or CommunicationConfig::axes.
using Field = std::variant<std::monostate, Access<bool>, Access<int64_t>, Access<uint64_t>,
                           Access<double>, Access<std::string>, Access<std::filesystem::path>,
                           Access<std::optional<int64_t>>>;

struct Default {
  enum class Kind {
    required,
    value,    ///< `toml` is the value
    derived,  ///< from other keys, by derive_defaults()
    none      ///< the key may be absent
  };
  Kind kind;
  std::string_view toml = {};
};

struct Key {
  std::string_view name;  ///< "train.steps"
  Field field;
  Domain domain;
  Default fallback;
  std::string_view doc;

  std::string_view table() const { return name.substr(0, name.rfind('.')); }
  std::string_view leaf() const { return name.substr(name.rfind('.') + 1); }
};

/// The table of the keys that an axis may have; in a file it has an axis's name.
constexpr std::string_view kAxisTable = "communication.<axis>";

/// In the order of the tables in the reference, which --print-config keeps.
std::span<const Key> keys();
const Key* find_key(std::string_view name);
/// A key of [model] that config.json has too.
bool is_architecture_key(const Key& key);
std::vector<std::string> keys_of_table(std::string_view table);

/// The tables that a file may hold, in the reference's order.
std::span<const std::string_view> table_names();
bool is_table_name(std::string_view name);

/// What any axis of the mesh accepts; plugins may add axes beside the known ones.
Domain axis_domain();

/// The second half of an unknown key's message: the table that it belongs to, the nearest name, or
/// what `prefix` ("train", "strategy.<name>") has. `siblings`: the keys that it has.
std::string unknown_key_advice(const std::string& prefix, const std::string& key,
                               const std::vector<std::string>& siblings);
std::string unknown_table_advice(const std::string& table);

}  // namespace cleave
