// B sequences, T tokens, C hidden, H heads, K key/value heads, D head size, F intermediate,
// V vocabulary. Parameter names are Hugging Face's; projections are stored (out, in).
#include "core/decoder.h"

#include <ATen/ATen.h>

namespace cleave {

namespace {

// One table for all layers, made at the first use on a device.
class Rotary {
 public:
  Rotary(int64_t T, int64_t D, double theta) : T_(T), D_(D), theta_(theta) {}

  const RotaryTable& on(at::Device device) {
    if (!table_.cos.defined() || table_.cos.device() != device) table_ = make(device);
    return table_;
  }

 private:
  // Position x frequency in float64, rounded once: low precision phases alias beyond 256 positions.
  RotaryTable make(at::Device device) const {
    // on the CPU, so that all devices get the same bits; a dry run wants the shapes alone
    const auto f64 = at::dtype(at::kDouble).device(device.is_meta() ? device : at::kCPU);
    const at::Tensor frequencies = at::pow(theta_, at::arange(0, D_, 2, f64).div_(-D_));  // (D/2)
    const at::Tensor phases = at::outer(at::arange(T_, f64), frequencies);  // (T, D/2)
    return {phases.cos().to(device, at::kFloat), phases.sin().to(device, at::kFloat)};
  }

  int64_t T_;
  int64_t D_;
  double theta_;
  RotaryTable table_;
};

constexpr MatrixSplit kVocabulary{0, 1, true};

class Embedding final : public Unit {
 public:
  Embedding(const ModelConfig& config, ParameterTable& table) {
    info = {"embedding", 0, {}, UnitKind::embedding};
    weight_ = &table.use(info, "model.embed_tokens.weight", {config.vocab_size, config.hidden_size},
                         Init::normal, kVocabulary);
  }

  at::Tensor forward(Ops& ops, const at::Tensor& path, const MicroBatch& micro_batch) override {
    return ops.embedding(micro_batch.tokens, *weight_, path);  // (B, T, C)
  }

 private:
  Parameter* weight_;  // (V, C)
};

class DecoderLayer final : public Unit {
 public:
  DecoderLayer(const ModelConfig& config, int layer, std::shared_ptr<Rotary> rotary,
               ParameterTable& table)
      : head_dim_(config.head_dim), eps_(config.rms_norm_eps), rotary_(std::move(rotary)) {
    info = {"layers." + std::to_string(layer), layer + 1, {}};
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const int64_t C = config.hidden_size, F = config.intermediate_size;
    const int64_t q_size = config.num_attention_heads * config.head_dim;
    const int64_t kv_size = config.num_key_value_heads * config.head_dim;
    const auto vector = [&](const std::string& name, int64_t size, Init init,
                            MatrixSplit split = {}) {
      return &table.use(info, prefix + name, {size}, init, split);
    };
    const auto projection = [&](const std::string& name, int64_t out, int64_t in, bool bias,
                                MatrixSplit split) {
      Parameter* weight =
          &table.use(info, prefix + name + ".weight", {out, in}, Init::normal, split);
      // a bias belongs to the outputs: cut with them or, where the inputs are cut, whole
      const MatrixSplit bias_split = split.dim == 0 ? split : MatrixSplit{};
      return Projection{weight,
                        bias ? vector(name + ".bias", out, Init::zeros, bias_split) : nullptr};
    };
    const MatrixSplit outputs{0}, inputs{1}, head_outputs{0, head_dim_}, head_inputs{1, head_dim_};
    const MatrixSplit shared_outputs{.dim = 0, .block = head_dim_, .may_be_shared = true};
    attention_norm_ = vector("input_layernorm.weight", C, Init::ones);
    qkv_ = {projection("self_attn.q_proj", q_size, C, config.attention_bias, head_outputs),
            projection("self_attn.k_proj", kv_size, C, config.attention_bias, shared_outputs),
            projection("self_attn.v_proj", kv_size, C, config.attention_bias, shared_outputs)};
    const bool has_out_bias = config.attention_bias && config.architecture == "llama";
    attention_out_ = {projection("self_attn.o_proj", C, q_size, has_out_bias, head_inputs)};
    mlp_norm_ = vector("post_attention_layernorm.weight", C, Init::ones);
    gate_up_ = {projection("mlp.gate_proj", F, C, false, outputs),
                projection("mlp.up_proj", F, C, false, outputs)};
    down_ = {projection("mlp.down_proj", C, F, false, inputs)};
  }

  at::Tensor forward(Ops& ops, const at::Tensor& x, const MicroBatch&) override {
    const at::Tensor h = x + attention(ops, ops.rms_norm(x, *attention_norm_, eps_));  // (B, T, C)
    return h + mlp(ops, ops.rms_norm(h, *mlp_norm_, eps_));
  }

 private:
  // (B, T, C) -> (B, T, C). Head counts follow from the projections' sizes: fewer under tensor
  // split.
  at::Tensor attention(Ops& ops, const at::Tensor& x) {
    const auto heads = [&](const at::Tensor& y) {
      return y.view({y.size(0), y.size(1), -1, head_dim_});
    };
    const auto qkv = ops.linear(ops.region_in(x), qkv_);  // (B, T, H D), 2 x (B, T, K D)
    const at::Tensor y =
        ops.attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), rotary_->on(x.device()));
    return ops.region_out(ops.linear(y.flatten(2), attention_out_)[0]);
  }

  at::Tensor mlp(Ops& ops, const at::Tensor& x) {
    const auto gate_up = ops.linear(ops.region_in(x), gate_up_);  // 2 x (B, T, F)
    return ops.region_out(ops.linear(ops.swiglu(gate_up[0], gate_up[1]), down_)[0]);
  }

  int64_t head_dim_;
  double eps_;
  std::shared_ptr<Rotary> rotary_;
  Parameter* attention_norm_;              // (C)
  std::vector<Projection> qkv_;            // (H D, C), (K D, C), (K D, C)
  std::vector<Projection> attention_out_;  // (C, H D)
  Parameter* mlp_norm_;                    // (C)
  std::vector<Projection> gate_up_;        // 2 x (F, C)
  std::vector<Projection> down_;           // (C, F)
};

class Head final : public Unit {
 public:
  Head(const ModelConfig& config, ParameterTable& table) : eps_(config.rms_norm_eps) {
    info = {"head", static_cast<int>(config.num_hidden_layers) + 1, {}, UnitKind::head};
    norm_ = &table.use(info, "model.norm.weight", {config.hidden_size}, Init::ones);
    const char* name = config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
    weight_ =
        &table.use(info, name, {config.vocab_size, config.hidden_size}, Init::normal, kVocabulary);
  }

  at::Tensor forward(Ops& ops, const at::Tensor& x, const MicroBatch& micro_batch) override {
    const at::Tensor hidden = ops.region_in(ops.rms_norm(x, *norm_, eps_));
    return ops.cross_entropy(hidden, *weight_, micro_batch.targets, micro_batch.loss);
  }

 private:
  double eps_;
  Parameter* norm_;    // (C)
  Parameter* weight_;  // (V, C)
};

}  // namespace

std::vector<std::unique_ptr<Unit>> make_decoder(const ModelConfig& config, int64_t sequence_length,
                                                ParameterTable& table) {
  std::vector<std::unique_ptr<Unit>> units;
  auto rotary = std::make_shared<Rotary>(sequence_length, config.head_dim, config.rope_theta);
  units.push_back(std::make_unique<Embedding>(config, table));
  for (int layer = 0; layer < config.num_hidden_layers; ++layer)
    units.push_back(std::make_unique<DecoderLayer>(config, layer, rotary, table));
  units.push_back(std::make_unique<Head>(config, table));
  return units;
}

double flops_per_token(const ModelConfig& config, int64_t sequence_length) {
  const double C = config.hidden_size, D = config.head_dim, H = config.num_attention_heads;
  const double K = config.num_key_value_heads;
  const double layer = C * D * (2 * H + 2 * K) + 3 * C * config.intermediate_size;
  const double weights = config.num_hidden_layers * layer + C * config.vocab_size;
  return 6 * weights + 6 * config.num_hidden_layers * H * D * sequence_length;
}

}  // namespace cleave
