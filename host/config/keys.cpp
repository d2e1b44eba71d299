#include "keys.h"

#include <algorithm>
#include <array>
#include <limits>

namespace cleave {
namespace {

constexpr int64_t kSize = std::numeric_limits<int32_t>::max();  // dimensions and counts
constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();
constexpr int64_t kDeepest = 65536;  // things that the host keeps an object for
constexpr long double kInfinite = std::numeric_limits<long double>::infinity();

constexpr Domain integer(int64_t minimum, int64_t maximum, std::string_view unit = {}) {
  return {ValueType::integer,
          static_cast<long double>(minimum),
          static_cast<long double>(maximum),
          false,
          false,
          {},
          unit};
}
constexpr Domain above(long double minimum) {
  return {ValueType::number, minimum, kInfinite, true, true};
}
constexpr Domain at_least(long double minimum, long double below = kInfinite) {
  return {ValueType::number, minimum, below, false, true};
}
constexpr Domain choice(std::string_view choices) {
  return {ValueType::choice, 0, 0, false, false, choices};
}
constexpr Domain kFlag{ValueType::boolean};
constexpr Domain kPath{ValueType::path};
constexpr Domain kName{ValueType::name};
constexpr Domain kText{ValueType::text};
constexpr Domain kAxis = integer(1, 65536);

constexpr Default kRequired{Default::Kind::required};
constexpr Default kDerived{Default::Kind::derived};
constexpr Default kNone{Default::Kind::none};
constexpr Default value(std::string_view toml) {
  return {Default::Kind::value, toml};
}

template <auto... Members>
auto& member(RunConfig& config) {
  return (config.*....*Members);
}
template <auto Member>
constexpr auto kModel = &member<&RunConfig::model, Member>;
template <auto Member>
constexpr auto kData = &member<&RunConfig::data, Member>;
template <auto Member>
constexpr auto kTrain = &member<&RunConfig::train, Member>;
template <auto Member>
constexpr auto kOptimizer = &member<&RunConfig::optimizer, Member>;
template <auto Member>
constexpr auto kCheckpoint = &member<&RunConfig::checkpoint, Member>;
template <auto Member>
constexpr auto kMetrics = &member<&RunConfig::metrics, Member>;
constexpr auto kBackend =
    &member<&RunConfig::communication, &CommunicationConfig::backend, &PluginTable::name>;
constexpr auto kTimeout = &member<&RunConfig::communication, &CommunicationConfig::timeout_s>;

using M = ModelConfig;
using D = DataConfig;
using T = TrainConfig;
using O = OptimizerConfig;
using C = CheckpointConfig;

constexpr Key kKeys[] = {
    {"model.architecture", kModel<&M::architecture>, choice("qwen2|llama"), kRequired,
     "the decoder's type"},
    {"model.vocab_size", kModel<&M::vocab_size>, integer(1, kSize), kRequired, "number of tokens"},
    {"model.hidden_size", kModel<&M::hidden_size>, integer(1, kSize), kRequired,
     "width of the residual stream"},
    {"model.intermediate_size", kModel<&M::intermediate_size>, integer(1, kSize), kRequired,
     "inner width of the feed-forward part"},
    {"model.num_hidden_layers", kModel<&M::num_hidden_layers>, integer(1, kDeepest), kRequired,
     "decoder layers"},
    {"model.num_attention_heads", kModel<&M::num_attention_heads>, integer(1, kDeepest), kRequired,
     "query heads"},
    {"model.num_key_value_heads", kModel<&M::num_key_value_heads>, integer(1, kDeepest), kDerived,
     "key and value heads; default num_attention_heads"},
    {"model.head_dim", kModel<&M::head_dim>, integer(2, kSize), kDerived,
     "width of a head; default hidden_size / num_attention_heads"},
    {"model.rope_theta", kModel<&M::rope_theta>, above(0), value("10000.0"),
     "base of the rotary embedding"},
    {"model.rms_norm_eps", kModel<&M::rms_norm_eps>, above(0), value("1e-6"),
     "added to the mean square in norms"},
    {"model.initializer_range", kModel<&M::initializer_range>, above(0), value("0.02"),
     "standard deviation of initial weights"},
    {"model.attention_bias", kModel<&M::attention_bias>, kFlag, kDerived,
     "biases of q, k and v, for llama of o too; default true for qwen2, false for llama"},
    {"model.tie_word_embeddings", kModel<&M::tie_word_embeddings>, kFlag, value("false"),
     "the head is the embedding"},
    {"model.path", kModel<&M::path>, kPath, kNone,
     "Hugging Face folder; its config.json replaces the keys above"},
    {"model.init", kModel<&M::init>, choice("pretrained|random"), kDerived,
     "initial weights: path's safetensors, or random from train.seed; default pretrained with "
     "path, "
     "random without"},
    {"model.export", kModel<&M::export_folder>, kPath, kNone,
     "Hugging Face folder to write after the last step; must not exist, or be empty"},
    {"model.export_dtype", kModel<&M::export_dtype>, choice("float32|bfloat16"),
     value("\"float32\""), "of the exported weights"},

    {"data.path", kData<&D::path>, kPath, kRequired,
     "prefix of .bin and .idx, or a .txt read as bytes"},
    {"data.sequence_length", kData<&D::sequence_length>, integer(1, kSize, "tokens"), kRequired,
     "tokens of a sample"},
    {"data.shuffle", kData<&D::shuffle>, kFlag, value("true"), "a new order every epoch"},
    {"data.seed", kData<&D::seed>, integer(0, kLongest), value("1234"), "of the order of samples"},
    {"data.ignore_token", kData<&D::ignore_token>, integer(0, kSize), kNone,
     "targets equal to it do not count in the loss"},

    {"train.steps", kTrain<&T::steps>, integer(1, kSize), kRequired, "optimizer updates"},
    {"train.global_batch_size", kTrain<&T::global_batch_size>, integer(1, kSize, "sequences"),
     kRequired, "sequences a step, over all ranks"},
    {"train.micro_batch_size", kTrain<&T::micro_batch_size>, integer(1, kSize, "sequences"),
     kRequired, "sequences that one forward sees"},
    {"train.seed", kTrain<&T::seed>, integer(0, kLongest), value("1234"), "of the initial weights"},
    {"train.dtype", kTrain<&T::dtype>, choice("float32|bfloat16"), value("\"float32\""),
     "of compute; sums and norms stay float32"},
    {"train.device", kTrain<&T::device>, choice("auto|cpu|cuda"), value("\"auto\""),
     "where ranks compute; auto: a GPU where there is one and the backend moves its memory"},
    {"train.deterministic", kTrain<&T::deterministic>, kFlag, value("false"),
     "each sum over ranks in one order, whatever the sizes of buckets, the algorithm and timing; "
     "slower between machines"},

    {"optimizer.lr", kOptimizer<&O::lr>, above(0), kRequired, "highest learning rate"},
    {"optimizer.min_lr", kOptimizer<&O::min_lr>, at_least(0), value("0.0"),
     "learning rate after decay_steps"},
    {"optimizer.schedule", kOptimizer<&O::schedule>, choice("cosine|linear|constant"),
     value("\"cosine\""), "from lr to min_lr"},
    {"optimizer.warmup_steps", kOptimizer<&O::warmup_steps>, integer(0, kSize), value("0"),
     "updates until lr is reached"},
    {"optimizer.decay_steps", kOptimizer<&O::decay_steps>, integer(1, kSize), kDerived,
     "updates until min_lr is reached; default train.steps, at least warmup_steps"},
    {"optimizer.beta1", kOptimizer<&O::beta1>, at_least(0, 1), value("0.9"),
     "decay of the gradient's mean"},
    {"optimizer.beta2", kOptimizer<&O::beta2>, at_least(0, 1), value("0.95"),
     "decay of the squared gradient's mean"},
    {"optimizer.epsilon", kOptimizer<&O::epsilon>, above(0), value("1e-8"),
     "added to the denominator"},
    {"optimizer.weight_decay", kOptimizer<&O::weight_decay>, at_least(0), value("0.1"),
     "of tensors of 2 or more dims"},
    {"optimizer.clip_norm", kOptimizer<&O::clip_norm>, at_least(0), value("1.0"),
     "largest gradient norm; 0: off"},

    {"mesh.data", {}, kAxis, kNone, "ranks that split the batch; inferred when absent"},
    {"mesh.tensor", {}, kAxis, kNone, "ranks that split weight matrices; 1 when absent"},
    {"mesh.pipeline", {}, kAxis, kNone, "ranks that split the depth; 1 when absent"},

    {"communication.backend", kBackend, kName, value("\"mpi\""),
     "the plugin that moves bytes: nccl, mpi, local"},
    {"communication.timeout_s", kTimeout, integer(1, 86400, "seconds"), value("600"),
     "of every operation"},

    {"communication.<axis>.backend",
     {},
     kName,
     kDerived,
     "the plugin that moves bytes along this axis of the mesh; default communication.backend"},
    {"communication.<axis>.inner_backend",
     {},
     kName,
     kDerived,
     "of the inner groups where a strategy divides this axis; default backend of this table"},

    {"checkpoint.directory", kCheckpoint<&C::directory>, kPath, kNone,
     "of the checkpoints, a folder a step; all ranks must see it"},
    {"checkpoint.every_steps", kCheckpoint<&C::every_steps>, integer(1, kSize, "steps"),
     value("100"), "between checkpoints; the last step gets one too"},
    {"checkpoint.keep", kCheckpoint<&C::keep>, integer(1, kSize), value("3"),
     "newest checkpoints that stay"},
    {"checkpoint.resume", kCheckpoint<&C::resume>, kText, value("\"auto\""),
     "auto: from the newest in directory that is undamaged, if any; none: from the beginning, "
     "those "
     "in directory are moved aside; else from this folder"},
    {"checkpoint.asynchronous", kCheckpoint<&C::asynchronous>, kFlag, value("true"),
     "write while training goes on; takes memory for a copy of what a rank saves"},
    {"checkpoint.on_failure", kCheckpoint<&C::on_failure>, choice("continue|stop"),
     value("\"continue\""), "when a checkpoint can't be written: go on training, or end the run"},

    {"metrics.directory", kMetrics<&MetricsConfig::directory>, kPath, value("\"out/metrics\""),
     "of metrics.jsonl"},
    {"metrics.every_steps", kMetrics<&MetricsConfig::every_steps>, integer(1, kSize, "steps"),
     value("1"), "between console lines"},
    {"metrics.tensorboard", kMetrics<&MetricsConfig::tensorboard>, kFlag, value("false"),
     "write TensorBoard events too"},
    {"metrics.trace", kMetrics<&MetricsConfig::trace>, kFlag, value("false"),
     "write a trace of the run"},
    {"metrics.samples", kMetrics<&MetricsConfig::samples>, kFlag, value("false"),
     "write which samples each step read"},
};

constexpr std::array<std::string_view, 9> kTables = {"model",     "data",       "train",
                                                     "optimizer", "mesh",       "communication",
                                                     "strategy",  "checkpoint", "metrics"};

}  // namespace

std::span<const Key> keys() {
  return kKeys;
}

const Key* find_key(std::string_view name) {
  for (const Key& key : kKeys)
    if (key.name == name) return &key;
  return nullptr;
}

bool is_architecture_key(const Key& key) {
  constexpr std::string_view kOthers[] = {"path", "init", "export", "export_dtype"};
  return key.table() == "model" &&
         std::find(std::begin(kOthers), std::end(kOthers), key.leaf()) == std::end(kOthers);
}

std::vector<std::string> keys_of_table(std::string_view table) {
  std::vector<std::string> names;
  for (const Key& key : kKeys)
    if (key.table() == table) names.emplace_back(key.leaf());
  return names;
}

std::span<const std::string_view> table_names() {
  return kTables;
}

bool is_table_name(std::string_view name) {
  for (const auto table : kTables)
    if (table == name) return true;
  return false;
}

Domain axis_domain() {
  return kAxis;
}

}  // namespace cleave
