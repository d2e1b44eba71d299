#include <cmath>
#include <nlohmann/json.hpp>

#include "describe.h"
#include "describe_rows.h"
#include "keys.h"
#include "option_table.h"
#include "process/plugin_identity.h"

namespace cleave {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Content& content) {
  return std::visit(
      [](const auto& value) -> Json {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::monostate>)
          return nullptr;
        else
          return value;
      },
      content);
}

Json limit(long double value, ValueType type) {
  const bool is_integer = type != ValueType::number && value == std::floor(value);
  if (is_integer && std::fabs(value) < 0x1p63L) return static_cast<int64_t>(value);
  return static_cast<double>(value);
}

/// Type, choices, limits, unit.
void add_domain(Json& entry, const Domain& domain) {
  entry["type"] = type_name(domain.type);
  if (domain.type == ValueType::text_list) entry["items"] = "string";
  if (domain.type == ValueType::integer_list) entry["items"] = "int";
  if (domain.type == ValueType::choice) entry["choices"] = split_choices(domain.choices);
  if (has_range(domain.type) && std::isfinite(domain.minimum))
    entry[domain.minimum_open ? "above" : "minimum"] = limit(domain.minimum, domain.type);
  if (has_range(domain.type) && std::isfinite(domain.maximum))
    entry[domain.maximum_open ? "below" : "maximum"] = limit(domain.maximum, domain.type);
  entry["unit"] = domain.unit;
}

Json to_json(const cleave_abi& abi) {
  return {{"torch_version", printable(abi.torch_version)},
          {"compiler", printable(abi.compiler)},
          {"standard_library", printable(abi.standard_library)},
          {"architecture", printable(abi.architecture)},
          {"cuda_version", printable(abi.cuda_version)},
          {"nccl_version", printable(abi.nccl_version)},
          {"mpi", printable(abi.mpi)},
          {"cxx11_abi", abi.cxx11_abi},
          {"gxx_abi", abi.gxx_abi},
          {"sanitizers", abi.sanitizers},
          {"debug_containers", abi.debug_containers}};
}

std::string to_line(const Json& json) {
  constexpr int kIndent = 2;
  // a path of odd bytes must not end the program
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string describe_host_json() {
  Json list = Json::array();
  for (const Key& key : keys()) {
    Json entry = {{"key", key.name}};
    add_domain(entry, key.domain);
    entry["required"] = key.fallback.kind == Default::Kind::required;
    if (key.fallback.kind == Default::Kind::value)
      entry["default"] = to_json(parse_toml_value(std::string(key.fallback.toml))->content);
    entry["doc"] = key.doc;
    list.push_back(std::move(entry));
  }
  Json host = Json::object();
  host["keys"] = std::move(list);
  return to_line(host);
}

std::string describe_plugin_json(const PluginDescription& plugin) {
  require_usable(plugin);
  Json options = Json::array();
  for (const OptionDescription& description : plugin.options) {
    const cleave_option option = as_option(description);
    Json entry = {{"key", description.key}};
    add_domain(entry, domain_of(option));
    entry["default"] = to_json(parse_toml_value(description.default_value)->content);
    entry["same_on_all_ranks"] = description.same_on_all_ranks;
    entry["doc"] = description.doc;
    options.push_back(std::move(entry));
  }
  return to_line({{"kind", kind_name(plugin.kind)},
                  {"name", plugin.name},
                  {"version", plugin.version},
                  {"file", plugin.file.string()},
                  {"abi", to_json(plugin.abi)},
                  {"options", std::move(options)}});
}

}  // namespace cleave
