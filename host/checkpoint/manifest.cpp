#include "checkpoint/manifest.h"

#include <climits>

#include "checkpoint/checksum.h"
#include "checkpoint/coverage.h"
#include "checkpoint/stored_json.h"
#include "checkpoint/strict_object.h"
#include "cleave/error.h"

namespace cleave {

namespace {

constexpr char kVersionKey[] = "format_version";
constexpr char kChecksumKey[] = "checksum";

/// Never fails: a text that is not UTF-8 (a path) does not stop a save.
std::string dump(const Json& value) {
  return value.dump(1, ' ', false, Json::error_handler_t::replace);
}

Json json_of(const DataCursor& data) {
  return {{"next_sample", data.next_sample},
          {"num_tokens", data.num_tokens},
          {"checksum", to_hex(data.checksum)},
          {"sequence_length", data.sequence_length},
          {"global_batch_size", data.global_batch_size},
          {"shuffle", data.shuffle},
          {"seed", data.seed},
          {"ignore_token", data.ignore_token}};
}

DataCursor parse_data(const std::string& where, const Json& value) {
  StrictObject object(where, value);
  DataCursor data;
  data.next_sample = object.integer("next_sample", 0);
  data.num_tokens = object.integer("num_tokens", 0);
  data.checksum = object.checksum("checksum");
  data.sequence_length = object.integer("sequence_length", 1);
  data.global_batch_size = object.integer("global_batch_size", 1);
  data.shuffle = object.flag("shuffle");
  data.seed = object.unsigned_integer("seed");
  data.ignore_token = object.integer("ignore_token", -1);
  object.finish();
  return data;
}

Json json_of(const StoredTensor& tensor) {
  Json slices = Json::array();
  for (const StoredSlice& slice : tensor.slices) slices.push_back(cleave::json_of(slice));
  return {{"name", tensor.name},
          {"shape", tensor.shape},
          {"dtype", "float32"},
          {"slices", std::move(slices)}};
}

StoredTensor parse_tensor(const std::string& where, const Json& value) {
  StrictObject object(where, value);
  StoredTensor tensor;
  tensor.name = object.text("name");
  tensor.shape = object.sizes("shape");
  const std::string dtype = object.text("dtype");
  if (dtype != "float32") fail_damaged(where, message("dtype = ", quote(dtype), " is not float32"));
  for (const Json& slice : object.list("slices"))
    tensor.slices.push_back(
        parse_slice(message(where, ".slices[", tensor.slices.size(), "]"), slice));
  object.finish();
  return tensor;
}

void check_version(const std::string& where, const Json& root) {
  const auto version = root.find(kVersionKey);
  if (version == root.end() || !version->is_number_unsigned() || version->get<uint64_t>() == 0)
    throw ConfigError(message(where, ": is no checkpoint's manifest: it has no ", kVersionKey,
                              "; give the folder of a checkpoint"));
  if (version->get<uint64_t>() > static_cast<uint64_t>(Manifest::kFormatVersion))
    throw ConfigError(message(where, ": was written by a newer version (format ",
                              version->get<uint64_t>(), ", this program reads ",
                              Manifest::kFormatVersion, "); use that version"));
}

/// Removes the checksum.
void check_checksum(const std::string& where, Json& root) {
  const std::string stored = StrictObject(where, root).text(kChecksumKey);
  root.erase(kChecksumKey);
  const std::string actual = to_hex(checksum_of(dump(root)));
  if (stored != actual)
    fail_damaged(where, message("is not as it was written: checksum ", actual, ", not ", stored));
}

std::map<std::string, std::string> parse_versions(const std::string& where, const Json& value) {
  std::map<std::string, std::string> versions;
  for (const auto& [name, version] : value.items()) {
    if (!version.is_string())
      fail_damaged(where, message(name, " = ", show(version), " is no text"));
    versions[name] = version.get<std::string>();
  }
  return versions;
}

}  // namespace

bool is_weight(const std::string& tensor) {
  return !tensor.starts_with(kFirstMoment) && !tensor.starts_with(kSecondMoment);
}

const StoredTensor* Manifest::find(const std::string& name) const {
  for (const StoredTensor& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

int64_t Manifest::size_bytes() const {
  int64_t bytes = 0;
  for (const StoredFile& file : files) bytes += file.size_bytes;
  return bytes;
}

std::string extra_state_of(const Manifest& manifest, const std::string& tensor) {
  for (const std::string& strategy : manifest.strategies)
    if (tensor.starts_with(strategy + "."))
      return tensor.substr(0, tensor.find('.', strategy.size() + 1));
  return "";
}

std::string to_text(const Manifest& manifest) {
  Json root = {{kVersionKey, Manifest::kFormatVersion},
               {"step", manifest.step},
               {"tokens", manifest.tokens},
               {"world_size", manifest.world_size},
               {"mesh", manifest.mesh},
               {"strategies", manifest.strategies},
               {"dtype", manifest.dtype},
               {"weight_seed", manifest.weight_seed},
               {"data", json_of(manifest.data)},
               {"optimizer", manifest.optimizer},
               {"model", manifest.model},
               {"config", manifest.config},
               {"versions", manifest.versions},
               {"files", Json::array()},
               {"tensors", Json::array()}};
  for (const StoredFile& file : manifest.files) root["files"].push_back(json_of(file));
  for (const StoredTensor& tensor : manifest.tensors) root["tensors"].push_back(json_of(tensor));
  root[kChecksumKey] = to_hex(checksum_of(dump(root)));
  return dump(root) + '\n';
}

Manifest parse_manifest(const std::string& where, const std::string& text) {
  Json root = parse_json_object(where, text);
  check_version(where, root);
  check_checksum(where, root);
  StrictObject object(where, root);
  object.at(kVersionKey);
  Manifest manifest;
  manifest.step = object.integer("step", 0);
  manifest.tokens = object.integer("tokens", 0);
  const int64_t world_size = object.integer("world_size", 1);
  if (world_size > INT_MAX)
    fail_damaged(where, message("world_size = ", world_size, " is too large"));
  manifest.world_size = static_cast<int>(world_size);
  manifest.mesh = object.text("mesh");
  manifest.strategies = object.texts("strategies");
  manifest.dtype = object.text("dtype");
  manifest.weight_seed = object.unsigned_integer("weight_seed");
  manifest.data = parse_data(message(where, ": data"), object.object("data"));
  manifest.optimizer = object.object("optimizer");
  manifest.model = object.object("model");
  manifest.config = object.text("config");
  manifest.versions = parse_versions(message(where, ": versions"), object.object("versions"));
  for (const Json& file : object.list("files"))
    manifest.files.push_back(
        parse_file(message(where, ": files[", manifest.files.size(), "]"), file));
  for (const Json& tensor : object.list("tensors"))
    manifest.tensors.push_back(
        parse_tensor(message(where, ": tensors[", manifest.tensors.size(), "]"), tensor));
  object.finish();
  check_coverage(where, manifest);
  return manifest;
}

}  // namespace cleave
