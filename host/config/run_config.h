// The run as the TOML file describes it, after validation: every field is set, in range and typed.
// Defaults, ranges, units and help texts stand in one table (keys.cpp), which also drives
// --print-config, error messages and the reference page.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave {

/// Where a key stands, for messages and --print-config: "run.toml:14:1" (the key, not its value;
/// the bracket of a table), "--set mesh.tensor=2".
struct Origin {
  std::string text;
};

/// Hugging Face's config.json keys, from `path` or spelt inline under [model].
struct ModelConfig {
  std::string architecture;  ///< qwen2 | llama
  int64_t vocab_size;
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t num_hidden_layers;
  int64_t num_attention_heads;
  int64_t num_key_value_heads;
  int64_t head_dim;  ///< default hidden_size / num_attention_heads
  double rope_theta;
  double rms_norm_eps;
  double initializer_range;
  bool attention_bias;  ///< q, k, v biases, llama's o too; default true for qwen2, false for llama
  bool tie_word_embeddings;
  std::filesystem::path path = {};           ///< Hugging Face folder; empty: none
  std::string init = "random";               ///< pretrained | random
  std::filesystem::path export_folder = {};  ///< empty: no export
  std::string export_dtype = "float32";      ///< float32 | bfloat16
};

struct DataConfig {
  std::filesystem::path path;  ///< prefix of .bin/.idx, or a .txt read as bytes
  int64_t sequence_length;
  bool shuffle;
  uint64_t seed;
  std::optional<int64_t> ignore_token;
};

struct TrainConfig {
  int64_t steps;
  int64_t global_batch_size;  ///< sequences per step, over all data ranks
  int64_t micro_batch_size;
  uint64_t seed;
  std::string dtype;            ///< float32 | bfloat16
  std::string device = "auto";  ///< auto | cpu | cuda
  bool deterministic = false;   ///< sums over ranks in one order (cleave_bootstrap)
};

struct OptimizerConfig {
  double lr, min_lr;
  std::string schedule;  ///< cosine | linear | constant
  int64_t warmup_steps, decay_steps;
  double beta1, beta2, epsilon, weight_decay;
  double clip_norm;  ///< 0: off
};

/// A value of a plugin's own table, not yet checked against the plugin's option table.
struct RawOption {
  std::string key;
  std::string toml;  ///< the value as TOML, e.g. `25`, `"ob1"`, `true`
  Origin origin;
};

/// A plugin that the file asks for: [strategy.<name>] or a backend.
struct PluginTable {
  std::string name;
  Origin origin;  ///< of the table or the (first) backend key; begins a message about the plugin
  std::vector<RawOption> options;
};

/// [communication.<axis>]; empty: not written.
struct AxisBackends {
  std::string backend;
  std::string inner_backend;  ///< of the inner groups of a divided axis (mesh.h)
};

struct CommunicationConfig {
  PluginTable backend;                            ///< its options: [communication.<name>]
  int64_t timeout_s;                              ///< per operation
  std::map<std::string, AxisBackends> axes = {};  ///< those that are written
  std::vector<PluginTable> axis_backends = {};    ///< that axes name beside `backend`, each once

  /// The backend of an axis or of a part of a divided one ("data.inner").
  const PluginTable& backend_of(std::string_view axis) const;
};

struct CheckpointConfig {
  std::filesystem::path directory = {};  ///< empty: nothing is saved
  int64_t every_steps = 100;             ///< and after the last step
  int64_t keep = 3;                      ///< newest ones that stay
  std::string resume = "auto";           ///< auto | none | a folder
  bool asynchronous = true;              ///< written while training goes on
  std::string on_failure = "continue";   ///< continue | stop

  bool is_on() const { return !directory.empty(); }
};

struct MetricsConfig {
  std::filesystem::path directory;
  int64_t every_steps;  ///< console line; metrics.jsonl has every step
  bool tensorboard;
  bool trace;
  bool samples = false;  ///< samples.rank<r>.jsonl: what each step read
};

struct RunConfig {
  std::filesystem::path file;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  std::map<std::string, int> mesh;  ///< the axes that are written; "data" may be absent
  CommunicationConfig communication;
  std::vector<PluginTable> strategies;
  CheckpointConfig checkpoint;
  MetricsConfig metrics;
  /// Origin of each key by its dotted name ("mesh.tensor"), and of each table, for later messages.
  std::map<std::string, Origin> origins;

  /// "run.toml:14:1: mesh.tensor" or "mesh.tensor (default)": begins a message about a key.
  std::string where(const std::string& dotted_key) const;
};

/// Reads `file`, applies `overrides` ("table.key=value" from --set, in order), validates all.
/// Throws ConfigError with file:line:column.
RunConfig load_run_config(const std::filesystem::path& file,
                          const std::vector<std::string>& overrides);

/// The effective config as TOML with each value's origin as a comment; loads again to the same run.
std::string print_run_config(const RunConfig& config);

}  // namespace cleave
