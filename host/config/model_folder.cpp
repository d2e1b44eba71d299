#include "model_folder.h"

#include "cleave/error.h"
#include "fields.h"
#include "huggingface/config_json.h"
#include "relations.h"

namespace cleave {
namespace {

Value to_value(const Json& json) {
  if (json.is_boolean()) return {json.get<bool>(), "a boolean"};
  if (json.is_string()) return {json.get<std::string>(), "a string"};
  if (json.is_number_float()) return {json.get<double>(), "a float"};
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return {{}, message("an integer (", show(json), ") of more than 63 bits")};
  if (json.is_number_integer()) return {json.get<int64_t>(), "an integer"};
  return {{}, json.is_array() ? "an array" : "an object"};
}

/// The architecture alone; every key's origin is `file`.
RunConfig read_architecture(const std::filesystem::path& folder, const std::string& file) {
  RunConfig config{};
  for (const auto& [name, json] : model_values(read_model_config(folder))) {
    const Key& key = *find_key("model." + name);
    set_field(config, key, check_value(message(file, ": ", name), to_value(json), key.domain));
    config.origins[std::string(key.name)] = {file};
  }
  for (const Key& key : keys()) {
    if (!is_architecture_key(key) || config.origins.contains(std::string(key.name))) continue;
    if (key.fallback.kind == Default::Kind::required)
      throw ConfigError(message(file, ": ", key.leaf(),
                                " is missing; add it: ", describe(key.domain), ", ", key.doc));
    set_default(config, key);
  }
  derive_model_defaults(config);
  return config;
}

}  // namespace

void apply_model_folder(RunConfig& config) {
  const std::filesystem::path& folder = config.model.path;
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    throw ConfigError(message(config.where("model.path"), " = ", quote_toml(folder.string()),
                              " is not a folder; give one with config.json"));
  const std::string file = (folder / "config.json").string();
  const RunConfig architecture = read_architecture(folder, file);
  for (const Key& key : keys()) {
    if (!is_architecture_key(key)) continue;
    const Content value = read_field(architecture, key);
    Origin& origin = config.origins[std::string(key.name)];
    if (!origin.text.empty() && read_field(config, key) != value)
      throw ConfigError(message(config.where(std::string(key.name)), " = ",
                                to_toml(read_field(config, key)), " contradicts ", file,
                                ", where it is ", to_toml(value),
                                "; remove it, model.path sets the architecture"));
    if (origin.text.empty()) origin.text = file;
    set_field(config, key, value);
  }
}

}  // namespace cleave
