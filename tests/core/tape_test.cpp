// The walked units against one autograd graph (bitwise) and against an independent float64 decoder
// written with plain ATen operators and autograd over the weights.
#include "core/tape.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/model.h"
#include "core/torch_ops.h"
#include "support/tiny_run.h"

namespace cleave {
namespace {

using Weights = std::map<std::string, at::Tensor>;

struct Fixture {
  explicit Fixture(bool tied, const std::string& architecture = "qwen2") {
    config = test::tiny_config(folder);
    config.model.tie_word_embeddings = tied;
    config.model.architecture = architecture;
    config.model.attention_bias = architecture == "qwen2";
    model = std::make_unique<Model>(config);
    model->table.materialize(at::kCPU, 1, 0.2);
    uint64_t seed = 1;
    for (Parameter* p : model->parameters) {
      if (p->shape.size() == 1)  // biases 0 and norm weights 1 would hide faults
        p->value.add_(at::sin(at::arange(p->shape[0], at::kFloat) * double(++seed)) * 0.1);
      p->gradient = at::zeros_like(p->value);
    }
  }

  MicroBatch micro_batch(int index) const {
    const int64_t B = 3, T = 16;
    const at::Tensor ids = at::remainder(at::arange(B * (T + 1), at::kLong) * 31 + 7 * index, 97);
    const at::Tensor rows = ids.view({B, T + 1});
    const auto f64 = at::TensorOptions().dtype(at::kDouble);
    return {index,
            rows.narrow(1, 0, T).contiguous(),
            rows.narrow(1, 1, T).contiguous(),
            {at::zeros({}, f64), at::full({}, 1.0 / 40, f64), 5}};
  }

  Weights take_gradients() {
    Weights gradients;
    for (Parameter* p : model->parameters) {
      gradients[p->name] = p->gradient.clone();
      p->gradient_is_stale = true;
    }
    return gradients;
  }

  test::TemporaryFolder folder;
  RunConfig config;
  std::unique_ptr<Model> model;
  TorchOps ops;
};

at::Tensor rms(const at::Tensor& x, const at::Tensor& w, double eps) {
  return x * (x.pow(2).mean(-1, true) + eps).rsqrt() * w;
}

at::Tensor rope(const at::Tensor& x, double theta) {  // (B, heads, T, D)
  const int64_t T = x.size(2), D = x.size(3);
  const at::Tensor inverse = at::pow(theta, -at::arange(0, D, 2, at::kDouble) / D);
  const at::Tensor phase = at::outer(at::arange(T, at::kDouble), inverse);
  const at::Tensor cos = at::cat({phase, phase}, 1).cos(), sin = at::cat({phase, phase}, 1).sin();
  const at::Tensor rotated = at::cat({-x.narrow(3, D / 2, D / 2), x.narrow(3, 0, D / 2)}, 3);
  return x * cos + rotated * sin;
}

at::Tensor reference_loss(const ModelConfig& c, Weights& w, const MicroBatch& mb) {
  const auto weight = [&](const std::string& name) { return w.at(name); };
  at::Tensor x = at::embedding(weight("model.embed_tokens.weight"), mb.tokens);
  const int64_t B = x.size(0), T = x.size(1), D = c.head_dim;
  const at::Tensor mask = at::ones({T, T}, at::kBool).triu(1);
  for (int64_t l = 0; l < c.num_hidden_layers; ++l) {
    const std::string p = "model.layers." + std::to_string(l) + ".";
    const auto linear = [&](const at::Tensor& in, const std::string& name) {
      const at::Tensor y = at::matmul(in, weight(p + name + ".weight").t());
      return w.count(p + name + ".bias") ? y + weight(p + name + ".bias") : y;
    };
    const at::Tensor n1 = rms(x, weight(p + "input_layernorm.weight"), c.rms_norm_eps);
    const auto heads = [&](const std::string& name) {
      return linear(n1, name).view({B, T, -1, D}).transpose(1, 2);
    };
    const int64_t repeat = c.num_attention_heads / c.num_key_value_heads;
    const at::Tensor q = rope(heads("self_attn.q_proj"), c.rope_theta);
    const at::Tensor k = rope(heads("self_attn.k_proj"), c.rope_theta).repeat_interleave(repeat, 1);
    const at::Tensor v = heads("self_attn.v_proj").repeat_interleave(repeat, 1);
    const at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(double(D));
    const at::Tensor attended =
        at::matmul(scores.masked_fill(mask, -INFINITY).softmax(-1), v).transpose(1, 2).flatten(2);
    x = x + linear(attended, "self_attn.o_proj");
    const at::Tensor n2 = rms(x, weight(p + "post_attention_layernorm.weight"), c.rms_norm_eps);
    const at::Tensor gate = linear(n2, "mlp.gate_proj");
    x = x + linear(gate * gate.sigmoid() * linear(n2, "mlp.up_proj"), "mlp.down_proj");
  }
  x = rms(x, weight("model.norm.weight"), c.rms_norm_eps);
  const char* head = c.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  const at::Tensor logits = at::matmul(x, weight(head).t()).flatten(0, 1);
  const at::Tensor picked = logits.log_softmax(-1).gather(1, mb.targets.flatten().unsqueeze(1));
  return -(picked.squeeze(1) * mb.targets.flatten().ne(mb.loss.ignore_token)).sum();
}

class TapeTest : public testing::TestWithParam<std::tuple<bool, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Models, TapeTest,
                         testing::Combine(testing::Bool(), testing::Values("qwen2", "llama")));

TEST_P(TapeTest, EqualsOneAutogradGraphBitwise) {
  Fixture f(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const std::vector<UnitObserver*> observers;
  Tape tape(f.ops, {observers});
  const MicroBatch walked = f.micro_batch(0), whole = f.micro_batch(0);
  tape.forward(f.model->units, walked);
  tape.backward(f.model->units, walked, [](int) {});
  const Weights expected = f.take_gradients();
  EXPECT_EQ(tape.num_records(), 0u);

  at::Tensor x = at::empty({0}).requires_grad_(true);
  const at::Tensor input = x;
  for (auto& unit : f.model->units) x = unit->forward(f.ops, x, whole);
  torch::autograd::grad({x}, {input}, {at::ones_like(x)});
  for (auto& [name, gradient] : f.take_gradients())
    EXPECT_TRUE(test::bitwise_equal(gradient, expected.at(name))) << name;
  EXPECT_EQ(walked.loss.sum.item<double>(), whole.loss.sum.item<double>());
}

TEST_P(TapeTest, MatchesTheFloat64ReferenceOverTwoMicroBatches) {
  Fixture f(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const std::vector<UnitObserver*> observers;
  Tape tape(f.ops, {observers});
  const MicroBatch first = f.micro_batch(0), second = f.micro_batch(1);
  tape.forward(f.model->units, first);  // both alive at once, as a pipeline keeps them
  tape.forward(f.model->units, second);
  tape.backward(f.model->units, first, [](int) {});
  tape.backward(f.model->units, second, [](int) {});

  Weights weights;
  std::vector<at::Tensor> leaves;
  for (Parameter* p : f.model->parameters)
    leaves.push_back(weights[p->name] = p->value.to(at::kDouble).requires_grad_(true));
  const at::Tensor loss = reference_loss(f.config.model, weights, first) +
                          reference_loss(f.config.model, weights, second);
  const double measured = (first.loss.sum + second.loss.sum).item<double>();
  EXPECT_NEAR(measured / loss.item<double>(), 1.0, 1e-6);

  const auto gradients = torch::autograd::grad({loss / 40}, leaves);
  double all = 0;
  for (const at::Tensor& g : gradients) all += g.pow(2).sum().item<double>();
  for (size_t i = 0; i < leaves.size(); ++i) {
    const at::Tensor& mine = f.model->parameters[i]->gradient;
    const double bound = 1e-5 * std::max(gradients[i].norm().item<double>(), 1e-2 * std::sqrt(all));
    EXPECT_LE((mine.to(at::kDouble) - gradients[i]).norm().item<double>(), bound)
        << f.model->parameters[i]->name;
  }
}

// Remembers the gradients when a backward begins; they must be the same bits at its end.
class NoGradientInBackward final : public UnitObserver {
 public:
  explicit NoGradientInBackward(const Fixture& fixture) : fixture_(fixture) {}
  void before_unit(const UnitInfo&, int, Phase phase) override {
    phases.push_back(phase);
    if (phase == Phase::backward) before_ = gradients();
  }
  void after_unit(const UnitInfo& unit, int, Phase phase) override {
    if (phase != Phase::backward) return;
    for (const auto& [name, gradient] : gradients())
      EXPECT_TRUE(test::bitwise_equal(gradient, before_.at(name))) << unit.name << ": " << name;
  }
  std::vector<Phase> phases;

 private:
  Weights gradients() const {
    Weights all;
    for (const Parameter* p : fixture_.model->parameters) all[p->name] = p->gradient.clone();
    return all;
  }
  const Fixture& fixture_;
  Weights before_;
};

TEST_P(TapeTest, BackwardInHalvesMakesWeightGradientsInTheSecondAlone) {
  Fixture f(std::get<0>(GetParam()), std::get<1>(GetParam()));
  NoGradientInBackward observer(f);
  Tape whole(f.ops, {}), halves(f.ops, {{&observer}});
  const MicroBatch first = f.micro_batch(0), second = f.micro_batch(1);
  for (const MicroBatch& micro_batch : {first, second}) whole.forward(f.model->units, micro_batch);
  for (const MicroBatch& micro_batch : {first, second})
    whole.backward(f.model->units, micro_batch, [](int) {});
  const Weights expected = f.take_gradients();

  for (const MicroBatch& micro_batch : {first, second}) halves.forward(f.model->units, micro_batch);
  for (const MicroBatch& micro_batch : {first, second})
    halves.backward_input(f.model->units, micro_batch);
  EXPECT_EQ(halves.num_records(), 0u);
  std::vector<int> ready;
  for (const MicroBatch& micro_batch : {first, second})
    halves.backward_weight(f.model->units, micro_batch, [&](int unit) { ready.push_back(unit); });
  for (const auto& [name, gradient] : f.take_gradients())
    EXPECT_TRUE(test::bitwise_equal(gradient, expected.at(name))) << name;
  EXPECT_EQ(ready, (std::vector<int>{6, 5, 4, 3, 2, 1, 0, 6, 5, 4, 3, 2, 1, 0}));
  std::vector<Phase> phases(14, Phase::forward);
  phases.insert(phases.end(), 14, Phase::backward);
  phases.insert(phases.end(), 14, Phase::weight);
  EXPECT_EQ(observer.phases, phases);
}

TEST_P(TapeTest, LossWithoutGradientsIsTheSame) {
  Fixture f(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const std::vector<UnitObserver*> observers;
  Tape tape(f.ops, {observers});
  const MicroBatch trained = f.micro_batch(0), evaluated = f.micro_batch(0);
  tape.forward(f.model->units, trained);
  tape.backward(f.model->units, trained, [](int) {});
  const c10::AutoGradMode no_gradients(false);
  at::Tensor x = at::empty({0});
  for (auto& unit : f.model->units) x = unit->forward(f.ops, x, evaluated);
  EXPECT_EQ(trained.loss.sum.item<double>(), evaluated.loss.sum.item<double>());
}

TEST(Tape, TiedWeightIsOneEntryUsedByTwoUnits) {
  Fixture tied(true), untied(false);
  EXPECT_EQ(tied.model->parameters.size() + 1, untied.model->parameters.size());
  EXPECT_EQ(tied.model->parameters[0]->units, (std::vector<int>{0, 6}));
  const auto order = backward_order(tied.model->unit_infos);
  EXPECT_EQ(order.back(), tied.model->parameters[0]);  // ready after its last use, the embedding
  EXPECT_EQ(order.size(), tied.model->parameters.size());
}

}  // namespace
}  // namespace cleave
