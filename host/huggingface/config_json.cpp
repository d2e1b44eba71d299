#include "huggingface/config_json.h"

#include <algorithm>

#include "cleave/error.h"

namespace cleave {

namespace {

constexpr int64_t kMostBytes = 16 << 20;

struct Architecture {
  const char* model_type;
  const char* class_name;
};
constexpr Architecture kArchitectures[] = {{"qwen2", "Qwen2ForCausalLM"},
                                           {"llama", "LlamaForCausalLM"}};

constexpr const char* kSameName[] = {
    "vocab_size",          "hidden_size",         "intermediate_size",  "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim",           "rms_norm_eps",
    "initializer_range",   "attention_bias",      "tie_word_embeddings"};

const Architecture* find_architecture(const Json& model_type) {
  for (const Architecture& entry : kArchitectures)
    if (model_type == entry.model_type) return &entry;
  return nullptr;
}

/// The value, or null when it is absent.
Json value_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? Json() : *found;
}

/// Refuses the first thing that makes another function of the model.
class Judge {
 public:
  Judge(const std::string& file, const Json& config) : file_(file), config_(config) {}

  void judge() const {
    const Json type = value_at(config_, "model_type");
    const Architecture* architecture = find_architecture(type);
    if (!architecture) fail("model_type", type, "is not supported; give a qwen2 or llama model");
    const Json classes = value_at(config_, "architectures");
    if (!classes.is_null() && classes != Json::array({architecture->class_name}))
      fail("architectures", classes,
           message("is not supported; give a model of ", architecture->class_name));
    only("hidden_act", {"silu", "swish"}, "the feed-forward part is gated by silu");
    only("mlp_bias", {false}, "the feed-forward part has no biases");
    only("attention_dropout", {0}, "there is no dropout");
    only("use_sliding_window", {false}, "attention sees all earlier tokens");
    only("partial_rotary_factor", {1}, "all of a head is rotated");
    only("quantization_config", {}, "weights are F32, BF16 or F16");
    only("auto_map", {}, "code that comes with a model is not run");
    if (type == "qwen2") only("attention_bias", {true}, "qwen2 has biases of q, k and v");
    judge_layers();
    judge_rotary("rope_scaling");
    judge_rotary("rope_parameters");
    judge_theta();
  }

 private:
  [[noreturn]] void fail(const std::string& key, const Json& value, const std::string& what) const {
    throw ConfigError(message(file_, ": ", key, " = ", show(value), " ", what));
  }

  /// Absent, null or one of `allowed`.
  void only(const std::string& key, const std::vector<Json>& allowed, const char* why) const {
    const Json value = value_at(config_, key.c_str());
    if (value.is_null() || std::find(allowed.begin(), allowed.end(), value) != allowed.end())
      return;
    fail(key, value, message("is not supported, ", why, "; use another model"));
  }

  void judge_layers() const {
    const Json layers = value_at(config_, "layer_types");
    if (layers.is_null()) return;
    const bool all_full =
        layers.is_array() &&
        std::all_of(layers.begin(), layers.end(), [](auto& l) { return l == "full_attention"; });
    if (!all_full)
      fail("layer_types", layers,
           "is not supported, all layers are full_attention; use another model");
  }

  /// Only what says "as usual" is let through: a factor beside type default has no effect, but then
  /// the file says two things.
  void judge_rotary(const std::string& key) const {
    const Json rotary = value_at(config_, key.c_str());
    if (rotary.is_null()) return;
    bool is_default = rotary.is_object();
    if (is_default)
      for (const auto& [name, value] : rotary.items()) {
        if (name == "rope_theta" || value.is_null()) continue;
        if ((name == "rope_type" || name == "type") && value == "default") continue;
        if (name == "partial_rotary_factor" && value == 1) continue;
        is_default = false;
      }
    if (!is_default)
      fail(key, rotary, "is not supported, the rotary embedding is not scaled; use another model");
  }

  /// rope_theta may stand in three places.
  void judge_theta() const {
    const Json first = value_at(config_, "rope_theta");
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      const Json rotary = value_at(config_, key);
      const Json theta = rotary.is_object() ? value_at(rotary, "rope_theta") : Json();
      if (!theta.is_null() && !first.is_null() && theta != first)
        fail(message(key, ".rope_theta"), theta,
             message("contradicts rope_theta = ", show(first), "; remove one of the two"));
    }
  }

  const std::string& file_;
  const Json& config_;
};

Json rope_theta_of(const Json& config) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json rotary = value_at(config, key);
    if (rotary.is_object() && !value_at(rotary, "rope_theta").is_null())
      return rotary["rope_theta"];
  }
  return value_at(config, "rope_theta");
}

Json new_config(const ModelConfig& model, int64_t sequence_length) {
  const auto* architecture = find_architecture(model.architecture);
  Json config = {{"architectures", Json::array({architecture->class_name})},
                 {"model_type", model.architecture},
                 {"vocab_size", model.vocab_size},
                 {"hidden_size", model.hidden_size},
                 {"intermediate_size", model.intermediate_size},
                 {"num_hidden_layers", model.num_hidden_layers},
                 {"num_attention_heads", model.num_attention_heads},
                 {"num_key_value_heads", model.num_key_value_heads},
                 {"head_dim", model.head_dim},
                 {"hidden_act", "silu"},
                 {"max_position_embeddings", sequence_length},
                 {"initializer_range", model.initializer_range},
                 {"rms_norm_eps", model.rms_norm_eps},
                 {"rope_theta", model.rope_theta},
                 {"rope_scaling", nullptr},
                 {"attention_dropout", 0.0},
                 {"tie_word_embeddings", model.tie_word_embeddings},
                 {"use_cache", true},
                 {"bos_token_id", nullptr},
                 {"eos_token_id", nullptr}};
  if (model.architecture == "qwen2") {
    config["use_sliding_window"] = false;
  } else {
    config["attention_bias"] = model.attention_bias;
    config["mlp_bias"] = false;
  }
  return config;
}

}  // namespace

Json read_model_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  Json config = read_json_object(file, kMostBytes);
  const std::string where = file.string();
  Judge(where, config).judge();
  return config;
}

std::vector<std::pair<std::string, Json>> model_values(const Json& config) {
  std::vector<std::pair<std::string, Json>> values = {{"architecture", config["model_type"]},
                                                      {"rope_theta", rope_theta_of(config)}};
  for (const char* key : kSameName) values.emplace_back(key, value_at(config, key));
  std::erase_if(values, [](const auto& value) { return value.second.is_null(); });
  return values;
}

Json make_model_config(const ModelConfig& model, const Json& source, const std::string& dtype,
                       int64_t sequence_length) {
  Json config = source.is_null() ? new_config(model, sequence_length) : source;
  set_declared_dtype(config, dtype);
  return config;
}

void set_declared_dtype(Json& config, const std::string& dtype) {
  const bool has_new_name = config.contains("dtype");
  if (has_new_name) config["dtype"] = dtype;
  if (!has_new_name || config.contains("torch_dtype")) config["torch_dtype"] = dtype;
}

std::string declared_dtype(const Json& config) {
  for (const char* key : {"dtype", "torch_dtype"})
    if (const Json dtype = value_at(config, key); dtype.is_string()) return dtype;
  return "";
}

}  // namespace cleave
