// activation-checkpoint changes what is kept and nothing else: every bit of a run is the same.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <fstream>

#include "cleave/error.h"
#include "core/tape.h"
#include "core/torch_ops.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

const std::map<std::string, Options> kVariants = {
    {"full", {}},
    {"full, every second layer", {{"every", "2"}}},
    {"selective", {{"mode", "\"selective\""}}},
    {"norm", {{"mode", "\"selective\""}, {"operations", "[\"norm\"]"}}},
    {"mlp", {{"mode", "\"selective\""}, {"operations", "[\"mlp\"]"}}},
    {"attention", {{"mode", "\"selective\""}, {"operations", "[\"attention\"]"}}}};

RunConfig with(RunConfig config, const Options& options) {
  config.strategies.push_back(test::strategy("activation-checkpoint", options));
  return config;
}

struct Case {
  int ranks;
  int accumulation;
  bool tied;
  std::string architecture;
  std::string dtype;
};

std::string name_of(const Case& c) {
  return message(c.ranks, "ranks_", c.accumulation, "micro_", c.tied ? "tied_" : "untied_",
                 c.architecture, "_", c.dtype);
}

void PrintTo(const Case& c, std::ostream* out) {
  *out << name_of(c);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int ranks : {1, 3})
    for (int accumulation : {1, 3})
      for (bool tied : {false, true}) {
        for (const char* architecture : {"qwen2", "llama"})
          all.push_back({ranks, accumulation, tied, architecture, "float32"});
        all.push_back({ranks, accumulation, tied, tied ? "qwen2" : "llama", "bfloat16"});
      }
  return all;
}

RunConfig config_of(const test::TemporaryFolder& folder, const Case& c) {
  RunConfig config = test::tiny_config(folder);
  config.model.architecture = c.architecture;
  config.model.attention_bias = c.architecture == "qwen2";
  config.model.tie_word_embeddings = c.tied;
  config.train.dtype = c.dtype;
  config.train.global_batch_size = 18;
  config.train.micro_batch_size = 18 / c.ranks / c.accumulation;
  return config;
}

class RecomputeCases : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Recompute, RecomputeCases, testing::ValuesIn(cases()),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(RecomputeCases, EveryVariantEqualsOffBitwise) {
  const test::TemporaryFolder folder;
  const RunConfig config = config_of(folder, GetParam());
  const auto off = test::run_ranks(config, GetParam().ranks);
  for (const auto& [variant, options] : kVariants) {
    SCOPED_TRACE(variant);
    const auto on = test::run_ranks(with(config, options), GetParam().ranks);
    for (size_t rank = 0; rank < off.size(); ++rank)
      test::expect_bitwise_equal(on[rank], off[rank]);
  }
}

struct Layout {
  int ranks;
  PluginTable strategy;
  std::map<std::string, int> mesh = {};
};

// Parameters freed between forward and backward must be the gathered ones when an operation runs
// again; operations of a split model end with a collective or begin with one.
TEST(Recompute, EqualsOffBitwiseWhateverElseIsSplit) {
  const test::TemporaryFolder folder;
  for (const Layout& layout :
       std::vector<Layout>{{3, test::strategy("zero", {{"stage", "2"}})},
                           {3, test::strategy("zero", {{"stage", "3"}})},
                           {3, test::strategy("fsdp")},
                           {2, test::strategy("tensor-parallel"), {{"tensor", 2}}},
                           {2,
                            test::strategy("tensor-parallel", {{"sequence_parallel", "true"}}),
                            {{"tensor", 2}}}}) {
    RunConfig config = config_of(folder, {layout.ranks, 3, true, "qwen2", "float32"});
    config.mesh = layout.mesh;
    config.strategies = {layout.strategy};
    const auto off = test::run_ranks(config, layout.ranks);
    for (const auto& [variant, options] : kVariants) {
      SCOPED_TRACE(message(layout.strategy.name, " ", variant));
      test::expect_bitwise_equal(test::run_ranks(with(config, options), layout.ranks)[1], off[1]);
    }
  }
}

// Peak activation bytes of one more layer, from 8, 16 and 32 layers, per token.
std::vector<double> bytes_per_layer_and_token(RunConfig config) {
  std::vector<double> peaks, slopes;
  for (int64_t layers : {8, 16, 32}) {
    config.model.num_hidden_layers = layers;
    const auto run = test::run_ranks(config, 1)[0];
    peaks.push_back(static_cast<double>(run.peak_bytes.at(MemoryCategory::activations)));
  }
  const double tokens =
      static_cast<double>(config.train.micro_batch_size * config.data.sequence_length);
  return {(peaks[1] - peaks[0]) / 8 / tokens, (peaks[2] - peaks[1]) / 16 / tokens};
}

struct Kept {
  const char* variant;  // of kVariants, or "off"
  double elements, floats;
};

// The formulas of activation_checkpoint.cpp and torch_ops.h.
std::vector<Kept> kept_per_layer_and_token(const ModelConfig& c) {
  const double C = c.hidden_size, H = c.num_attention_heads, HD = H * c.head_dim;
  const double KD = c.num_key_value_heads * c.head_dim, F = c.intermediate_size;
  const double off = 4 * C + 2 * HD + 2 * KD + 3 * F;
  return {{"off", off, H + 2},
          {"norm", off - 2 * C, H + 2},
          {"mlp", off - F, H + 2},
          {"attention", off - HD, 2},
          {"selective", 2 * C + HD + 2 * KD + 2 * F, 2},
          {"full, every second layer", (off + C) / 2, (H + 2) / 2},
          {"full", C, 0}};
}

TEST(Recompute, ActivationBytesPerLayerFollowTheFormulas) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_config(folder);
  config.train.steps = 2;
  config.train.global_batch_size = 4;
  for (const std::string dtype : {"float32", "bfloat16"})
    for (const Kept& kept : kept_per_layer_and_token(config.model)) {
      config.train.dtype = dtype;
      const bool is_off = kept.variant == std::string("off");
      const RunConfig run = is_off ? config : with(config, kVariants.at(kept.variant));
      const double element_bytes = dtype == "float32" ? 4 : 2;
      const double expected = element_bytes * kept.elements + 4 * kept.floats;
      for (double measured : bytes_per_layer_and_token(run))
        EXPECT_NEAR(measured / expected, 1.0, 0.01) << kept.variant << " " << dtype;
    }
}

using Lines = std::vector<std::string>;

Lines lines_of(const std::filesystem::path& file) {
  Lines lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

PluginTable recorder(const std::string& name, const test::TemporaryFolder& folder) {
  return test::strategy(name, {{"log", message('"', (folder.path() / "log").string(), '"')}});
}

TEST(Recompute, OfALayerComesRightBeforeItsBackward) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_config(folder);
  config.model.num_hidden_layers = 3;
  config.train.steps = 1;
  config.train.micro_batch_size = 12;
  config.strategies = {recorder("record-observer", folder)};
  test::run_ranks(with(config, {{"every", "2"}}), 1);
  Lines expected = {"plan", "start"};
  const auto run = [&](const std::string& phase, const std::string& unit) {
    for (const char* when : {"before ", "after "})
      expected.push_back(when + phase + " " + unit + " #0");
  };
  for (const char* unit : {"embedding", "layers.0", "layers.1", "layers.2", "head"})
    run("forward", unit);
  run("backward", "head");
  run("recompute", "layers.2");
  run("backward", "layers.2");
  run("backward", "layers.1");
  run("recompute", "layers.0");
  run("backward", "layers.0");
  run("backward", "embedding");
  expected.insert(expected.end(), {"quiesce", "destroy"});
  EXPECT_EQ(lines_of(folder.path() / "log.rank0"), expected);
}

// pytorch#33962: a block that runs again on an input without gradients loses its own. Here it is
// the embedding, whose tokens can't have any.
TEST(Recompute, OfAllUnitsLosesNoGradient) {
  const test::TemporaryFolder folder;
  const RunConfig config = test::tiny_config(folder);
  Model model(config);
  model.table.materialize(at::kCPU, model.initial_weights, model.parameters);
  for (Parameter* parameter : model.parameters)
    parameter->gradient = at::zeros_like(parameter->value);
  const auto f64 = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor ids = at::remainder(at::arange(34, at::kLong) * 31, 97).view({2, 17});
  const MicroBatch micro_batch{0,
                               ids.narrow(1, 0, 16).contiguous(),
                               ids.narrow(1, 1, 16).contiguous(),
                               {at::zeros({}, f64), at::full({}, 1.0 / 32, f64), -1}};
  const auto gradients = [&](bool recompute) {
    for (const auto& unit : model.units) unit->info.recompute.unit = recompute;
    TorchOps ops;
    Tape tape(ops, {});
    std::vector<at::Tensor> all;
    for (Parameter* parameter : model.parameters) parameter->gradient_is_stale = true;
    tape.forward(model.units, micro_batch);
    tape.backward(model.units, micro_batch, [](int) {});
    for (Parameter* parameter : model.parameters) all.push_back(parameter->gradient.clone());
    return all;
  };
  const auto on = gradients(true), off = gradients(false);
  for (size_t i = 0; i < off.size(); ++i) {
    EXPECT_GT(off[i].abs().sum().item<double>(), 0.0) << model.parameters[i]->name;
    EXPECT_TRUE(test::bitwise_equal(on[i], off[i])) << model.parameters[i]->name;
  }
}

// pytorch#43259: with tied weights and recompute a bucket was signalled twice.
TEST(Recompute, EveryGradientOfATiedModelIsReadyOnceAStep) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, {3, 3, true, "qwen2", "float32"});
  config.strategies = {recorder("record-reducer", folder)};
  const auto ranks = test::run_ranks(with(config, {}), 3);
  std::map<std::string, int> times;
  for (const std::string& line : lines_of(folder.path() / "log.rank0"))
    if (line.starts_with("gradient_ready ")) ++times[line.substr(15)];
  EXPECT_EQ(times.size(), ranks[0].final_weights.size());
  for (const auto& [parameter, count] : times) EXPECT_EQ(count, config.train.steps) << parameter;
}

// and one that waits for a gradient that never comes.
TEST(Recompute, ParametersWithoutAGradientNeitherHangNorMove) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, {3, 3, true, "qwen2", "float32"});
  config.strategies.push_back(recorder("record-rewriter", folder));
  config.strategies.back().options.push_back({"skip_biases", "true", {"tiny.toml"}});
  for (const char* variant : {"full", "selective"}) {
    const auto rank = test::run_ranks(with(config, kVariants.at(variant)), 3)[2];
    for (const auto& [name, weight] : rank.initial_weights)
      EXPECT_EQ(test::bitwise_equal(rank.final_weights.at(name), weight), name.ends_with(".bias"))
          << name << " " << variant;
  }
}

struct Refusal {
  Options options;
  const char* expected;
};

TEST(Recompute, RefusesOptionsThatMeanNothing) {
  const test::TemporaryFolder folder;
  const std::pair<std::string, std::string> selective = {"mode", "\"selective\""};
  for (const auto& [options, expected] : std::vector<Refusal>{
           {{selective, {"operations", "[\"norm\", \"softmax\"]"}},
            "operations has \"softmax\", which is none; use some of \"norm\", \"mlp\", "
            "\"attention\""},
           {{selective, {"operations", "[]"}}, "operations is empty; use some of \"norm\""},
           {{selective, {"every", "2"}}, "every = 2 belongs to mode = \"full\"; leave it out"},
           {{{"operations", "[\"norm\"]"}},
            "operations belongs to mode = \"selective\"; leave it out"}}) {
    try {
      test::run_ranks(with(test::tiny_config(folder), options), 1);
      ADD_FAILURE() << "accepted, expected: " << expected;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

TEST(Recompute, RefusesLayersThatAnotherStrategyRecomputes) {
  const test::TemporaryFolder folder;
  try {
    test::run_ranks(with(with(test::tiny_config(folder), {}), kVariants.at("selective")), 1);
    FAIL() << "two strategies recompute one layer";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("layers.0 is recomputed already"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace cleave
