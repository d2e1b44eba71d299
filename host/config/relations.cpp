#include "relations.h"

#include <algorithm>
#include <limits>

#include "cleave/error.h"
#include "keys.h"
#include "toml_text.h"

namespace cleave {
namespace {

bool is_written(const RunConfig& config, const std::string& key) {
  return config.origins.count(key) > 0;
}

/// "1, 2, 3, 4, 6 or 12"
std::string divisors(int64_t number) {
  std::string text;
  for (int64_t i = 1; i < number; ++i)
    if (number % i == 0) text += (text.empty() ? "" : ", ") + std::to_string(i);
  return text.empty() ? std::to_string(number) : text + " or " + std::to_string(number);
}

void check_model(const RunConfig& config) {
  const ModelConfig& model = config.model;
  if (model.architecture == "qwen2" && !model.attention_bias)
    throw ConfigError(message(config.where("model.attention_bias"),
                              " = false, but qwen2 has biases of q, k and v; remove it, or use ",
                              "model.architecture = \"llama\""));
  if (model.init == "pretrained" && model.path.empty())
    throw ConfigError(message(config.where("model.init"), " = \"pretrained\" without model.path; ",
                              "write the path of a Hugging Face folder, or use \"random\""));
}

void check_heads(const RunConfig& config) {
  const ModelConfig& model = config.model;
  if (model.num_attention_heads % model.num_key_value_heads != 0)
    throw ConfigError(
        message(config.where("model.num_key_value_heads"), " = ", model.num_key_value_heads,
                " does not divide model.num_attention_heads = ", model.num_attention_heads,
                "; use ", divisors(model.num_attention_heads)));
  if (model.head_dim % 2 != 0)
    throw ConfigError(message(config.where("model.head_dim"), " = ", model.head_dim,
                              " is odd; the rotary embedding turns pairs, use an even number"));
}

void check_batch(const RunConfig& config) {
  const TrainConfig& train = config.train;
  if (train.global_batch_size % train.micro_batch_size != 0)
    throw ConfigError(
        message(config.where("train.micro_batch_size"), " = ", train.micro_batch_size,
                " does not divide train.global_batch_size = ", train.global_batch_size,
                "; global = micro x micro-batches x data ranks, change one of them"));
}

void check_schedule(const RunConfig& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  if (optimizer.min_lr > optimizer.lr)
    throw ConfigError(
        message(config.where("optimizer.min_lr"), " = ", format_double(optimizer.min_lr),
                " is above optimizer.lr = ", format_double(optimizer.lr), "; use at most lr"));
  if (optimizer.schedule != "constant" && optimizer.warmup_steps > optimizer.decay_steps)
    throw ConfigError(message(config.where("optimizer.warmup_steps"), " = ", optimizer.warmup_steps,
                              " is above optimizer.decay_steps = ", optimizer.decay_steps,
                              "; use at most decay_steps, or schedule = \"constant\""));
}

void check_mesh(const RunConfig& config) {
  int64_t product = 1;
  for (const auto& [axis, size] : config.mesh) {
    product *= size;  // both factors are below 2^31
    if (product > std::numeric_limits<int32_t>::max())
      throw ConfigError(message(config.where("mesh." + axis), " = ", size,
                                " makes a mesh of more than 2147483647 ranks; the product of all ",
                                "axes is the number of ranks, use smaller ones"));
  }
}

// Whoever writes something about checkpoints wants some.
void check_checkpoint(const RunConfig& config) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  if (checkpoint.resume.empty())
    throw ConfigError(message(config.where("checkpoint.resume"),
                              " is empty; write \"auto\", \"none\" or a folder"));
  if (checkpoint.is_on()) return;
  std::vector<std::string> written = {"checkpoint"};
  for (const std::string& key : keys_of_table("checkpoint")) written.push_back("checkpoint." + key);
  for (const std::string& key : written)
    if (is_written(config, key))
      throw ConfigError(message(config.where(key), ": checkpoint.directory is missing, so nothing ",
                                "would be saved; add directory = \"<folder>\" to [checkpoint]"));
}

}  // namespace

void derive_model_defaults(RunConfig& config) {
  ModelConfig& model = config.model;
  if (!is_written(config, "model.num_key_value_heads"))
    model.num_key_value_heads = model.num_attention_heads;
  if (!is_written(config, "model.head_dim")) {
    if (model.hidden_size % model.num_attention_heads != 0)
      throw ConfigError(message(config.where("model.num_attention_heads"), " = ",
                                model.num_attention_heads, " does not divide model.hidden_size = ",
                                model.hidden_size, "; change one of them or write model.head_dim"));
    model.head_dim = model.hidden_size / model.num_attention_heads;
  }
  if (!is_written(config, "model.attention_bias"))
    model.attention_bias = model.architecture == "qwen2";
}

void derive_defaults(RunConfig& config) {
  derive_model_defaults(config);
  if (!is_written(config, "model.init"))
    config.model.init = config.model.path.empty() ? "random" : "pretrained";
  if (!is_written(config, "optimizer.decay_steps"))
    config.optimizer.decay_steps = std::max(config.train.steps, config.optimizer.warmup_steps);
}

void check_relations(const RunConfig& config) {
  check_model(config);
  check_heads(config);
  check_batch(config);
  check_schedule(config);
  check_mesh(config);
  check_checkpoint(config);
}

}  // namespace cleave
