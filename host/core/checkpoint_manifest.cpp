#include "core/checkpoint_manifest.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <sstream>

#include "cleave/error.h"
#include "config/keys.h"
#include "core/agreement.h"
#include "core/extra_state.h"
#include "core/saved_state.h"
#include "core/versions.h"
#include "huggingface/config_json.h"

namespace cleave {

namespace {

// Of tokens at even distances: other data of the same length is noticed without reading all of it.
uint64_t data_checksum(const Dataset& dataset) {
  constexpr int64_t kProbes = 1024;
  const int64_t distance = std::max<int64_t>(1, dataset.num_tokens() / kProbes);
  std::string tokens;
  for (int64_t i = 0; i < dataset.num_tokens(); i += distance)
    tokens += std::to_string(dataset.token(i)) + " ";
  return fingerprint(tokens);
}

DataCursor data_cursor(const TrainerContext& context) {
  const RunConfig& config = context.config;
  return {0,
          context.dataset.num_tokens(),
          data_checksum(context.dataset),
          config.data.sequence_length,
          config.train.global_batch_size,
          config.data.shuffle,
          config.data.seed,
          config.data.ignore_token.value_or(-1)};
}

Json optimizer_json(const OptimizerConfig& optimizer) {
  return {{"name", "adamw"},
          {"lr", optimizer.lr},
          {"min_lr", optimizer.min_lr},
          {"schedule", optimizer.schedule},
          {"warmup_steps", optimizer.warmup_steps},
          {"decay_steps", optimizer.decay_steps},
          {"beta1", optimizer.beta1},
          {"beta2", optimizer.beta2},
          {"epsilon", optimizer.epsilon},
          {"weight_decay", optimizer.weight_decay},
          {"clip_norm", optimizer.clip_norm}};
}

Json model_json(const RunConfig& config) {
  const Json source = config.model.path.empty() ? Json() : read_model_config(config.model.path);
  return make_model_config(config.model, source, "float32", config.data.sequence_length);
}

std::string show(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

constexpr char kSameModel[] = "; a run goes on with the model that it began with";

void check_tensors(const std::string& where, const Manifest& manifest,
                   const TrainerContext& context) {
  const std::vector<StoredTensor> expected = stored_tensors(context.model.parameters);
  for (const StoredTensor& tensor : expected) {
    const StoredTensor* stored = manifest.find(tensor.name);
    if (!stored) throw ConfigError(message(where, ": has no ", tensor.name, kSameModel));
    if (stored->shape != tensor.shape)
      throw ConfigError(message(where, ": ", tensor.name, " has the shape ", show(stored->shape),
                                ", but this model's is ", show(tensor.shape), kSameModel));
  }
  if (manifest.tensors.size() == expected.size()) return;
  for (const StoredTensor& stored : manifest.tensors) {
    const std::string state = extra_state_of(manifest, stored.name);
    // a strategy's has a parameter's shape for each rank that has its own
    const auto is_same = [&](const StoredTensor& t) {
      return state.empty() ? t.name == stored.name
                           : state + "." + t.name == stored.name &&
                                 std::ranges::equal(stored.shape | std::views::drop(1), t.shape);
    };
    if (std::none_of(expected.begin(), expected.end(), is_same))
      throw ConfigError(
          message(where, ": holds ", stored.name, ", which this model has not", kSameModel));
  }
}

template <typename T>
void check_equal(const std::string& where, const std::string& key, const T& then, const T& now) {
  if (then == now) return;
  throw ConfigError(message(where, ": was saved with ", key, " = ", then, ", but now it is ", now,
                            "; samples would be repeated or lost: restore it, or begin a new run "
                            "with model.init = \"pretrained\" from host export's folder"));
}

// "[optimizer]" and "lr = 0.001" become {"optimizer.lr", "0.001"}.
std::map<std::string, std::string> values_by_key(const std::string& toml) {
  std::map<std::string, std::string> values;
  std::istringstream lines(toml);
  std::string line, table;
  while (std::getline(lines, line)) {
    line = line.substr(0, line.rfind(" #"));
    line = line.substr(0, line.find_last_not_of(' ') + 1);
    const size_t equals = line.find(" = ");
    if (line.starts_with("["))
      table = line.substr(1, line.find(']') - 1);
    else if (equals != std::string::npos)
      values[table + "." + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return values;
}

struct ChangedKey {
  std::string name;
  std::string then;
  std::string now;
};

std::vector<ChangedKey> changed_values(const Manifest& manifest, const RunConfig& config) {
  const auto then = values_by_key(manifest.config);
  std::vector<ChangedKey> changes;
  for (const auto& [name, now] : values_by_key(print_run_config(config)))
    if (const auto before = then.find(name); before != then.end() && before->second != now)
      changes.push_back({name, before->second, now});
  return changes;
}

// What shapes don't tell: frequencies, heads of another size in matrices of the same.
void check_architecture(const std::string& where, const Manifest& manifest,
                        const RunConfig& config) {
  for (const auto& [name, then, now] : changed_values(manifest, config)) {
    const Key* key = find_key(name);
    if (!key || !is_architecture_key(*key) || name == "model.initializer_range") continue;
    throw ConfigError(message(where, ": was saved with ", name, " = ", then, ", but now it is ",
                              now, kSameModel));
  }
}

}  // namespace

Manifest make_manifest(const TrainerContext& context, const ExtraStates& extra) {
  const RunConfig& config = context.config;
  Manifest manifest{};
  manifest.world_size = context.mesh.world_size();
  manifest.mesh = context.mesh.to_string();
  for (const PluginTable& strategy : config.strategies)
    manifest.strategies.push_back(strategy.name);
  manifest.dtype = config.train.dtype;
  manifest.weight_seed = config.train.seed;
  manifest.data = data_cursor(context);
  manifest.optimizer = optimizer_json(config.optimizer);
  manifest.model = model_json(config);
  manifest.config = print_run_config(config);
  for (const auto& [name, version] : versions()) manifest.versions[name] = version;
  manifest.tensors = stored_tensors(context.model.parameters);
  for (StoredTensor& tensor : extra.stored_tensors()) manifest.tensors.push_back(std::move(tensor));
  return manifest;
}

void set_step(Manifest& manifest, int64_t step) {
  manifest.step = step;
  manifest.data.next_sample = step * manifest.data.global_batch_size;
  manifest.tokens = manifest.data.next_sample * manifest.data.sequence_length;
}

void check_resumable(const std::string& where, const Manifest& manifest,
                     const TrainerContext& context) {
  check_tensors(where, manifest, context);
  check_architecture(where, manifest, context.config);
  const DataCursor& then = manifest.data;
  const DataCursor now = data_cursor(context);
  check_equal(where, "data.sequence_length", then.sequence_length, now.sequence_length);
  check_equal(where, "train.global_batch_size", then.global_batch_size, now.global_batch_size);
  check_equal(where, "data.shuffle", then.shuffle, now.shuffle);
  check_equal(where, "data.seed", then.seed, now.seed);
  check_equal(where, "data.ignore_token", then.ignore_token, now.ignore_token);
  check_equal(where, "the number of tokens in data.path", then.num_tokens, now.num_tokens);
  check_equal(where, "a checksum of data.path's tokens", then.checksum, now.checksum);
}

std::vector<std::string> changed_keys(const Manifest& manifest, const RunConfig& config) {
  std::vector<std::string> changes;
  for (const auto& [name, then, now] : changed_values(manifest, config))
    if (name.starts_with("train.") || name.starts_with("optimizer."))
      changes.push_back(message(name, " ", then, " -> ", now));
  return changes;
}

}  // namespace cleave
