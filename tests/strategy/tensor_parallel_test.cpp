// tensor-parallel trains the model that one rank trains, alone and with whatever splits the batch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "cleave/error.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

struct Case {
  int tensor;
  int data = 1;
  int64_t micro_batch_size = 6;  // of 12 sequences a step
  bool sequence_parallel = false;
  bool tied = false;
  std::string architecture = "qwen2";
  int64_t kv_heads = 2;
  std::string data_strategy = "ddp";
  std::vector<std::pair<std::string, std::string>> options = {};
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "tensor " << c.tensor << ", data " << c.data << " " << c.data_strategy << ", micro batch "
       << c.micro_batch_size << (c.sequence_parallel ? ", sequence parallel" : "")
       << (c.tied ? ", tied" : "") << ", " << c.architecture << ", " << c.kv_heads << " kv heads";
  for (const auto& [key, value] : c.options) *out << ", " << key << " " << value;
}

RunConfig config_of(const test::TemporaryFolder& folder, const Case& c) {
  RunConfig config = test::tiny_config(folder);
  config.train.micro_batch_size = c.micro_batch_size;
  config.train.steps = 10;
  config.model.architecture = c.architecture;
  config.model.tie_word_embeddings = c.tied;
  config.model.num_key_value_heads = c.kv_heads;
  config.mesh = {{"tensor", c.tensor}};
  config.strategies = {
      test::strategy("tensor-parallel",
                     {{"sequence_parallel", c.sequence_parallel ? "true" : "false"}}),
      test::strategy(c.data_strategy, c.options)};
  return config;
}

class TensorParallel : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Alone, TensorParallel,
    testing::Values(Case{1}, Case{2}, Case{4}, Case{2, 1, 4, true}, Case{4, 1, 12, true, true},
                    Case{2, 1, 6, false, true, "llama"}, Case{4, 1, 6, true, false, "llama"},
                    Case{2, 1, 6, false, false, "qwen2", 1}, Case{4, 1, 4, true, true, "qwen2", 1},
                    Case{4, 1, 4, false, true, "qwen2", 4}));
INSTANTIATE_TEST_SUITE_P(
    WithData, TensorParallel,
    testing::Values(Case{2, 2, 2}, Case{2, 3, 4, true, true},
                    Case{2, 2, 3, true, true, "qwen2", 1, "zero", {{"stage", "1"}}},
                    Case{2, 2, 2, false, true, "llama", 2, "zero", {{"stage", "2"}}},
                    Case{4, 2, 6, false, false, "qwen2", 1, "zero", {{"stage", "3"}}},
                    Case{2, 3, 1, true, true, "qwen2", 2, "zero", {{"stage", "3"}}}));

TEST_P(TensorParallel, EqualsOneRank) {
  const test::TemporaryFolder folder;
  const Case& c = GetParam();
  RunConfig config = config_of(folder, c);
  if (c.architecture == "llama") config.model.attention_bias = true;  // o_proj's too
  const auto ranks = test::run_ranks(config, c.tensor * c.data);
  config.strategies.clear();
  config.mesh.clear();
  test::expect_same_training(ranks, test::run_ranks(config, 1)[0]);
}

TEST_P(TensorParallel, RepeatsBitwiseOnEveryRank) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, GetParam());
  config.train.steps = 3;
  const int num_ranks = GetParam().tensor * GetParam().data;
  const auto first = test::run_ranks(config, num_ranks);
  for (const test::RunResult& rank : test::run_ranks(config, num_ranks))
    test::expect_bitwise_equal(rank, first[0]);
}

// A matrix of another height on each tensor rank must not move the cuts of the norms beside it,
// whose gradients the tensor ranks sum when zero has cut them.
TEST(TensorParallelWithZero, EqualsOneRankWithAVocabularyInUnevenParts) {
  for (const char* stage : {"1", "2", "3"})
    for (const int64_t vocabulary : {137, 139}) {
      SCOPED_TRACE(message("stage ", stage, ", ", vocabulary, " tokens"));
      const test::TemporaryFolder folder;
      RunConfig config =
          config_of(folder, {2, 4, 3, true, false, "qwen2", 2, "zero", {{"stage", stage}}});
      config.model.vocab_size = vocabulary;
      config.train.steps = 3;
      const auto ranks = test::run_ranks(config, 8);
      config.strategies.clear();
      config.mesh.clear();
      test::expect_same_training(ranks, test::run_ranks(config, 1)[0]);
    }
}

std::string refusal(RunConfig config, int num_ranks) {
  try {
    test::run_ranks(std::move(config), num_ranks);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TensorParallelRefuses, SizesThatDoNotDivide) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, {3});
  EXPECT_NE(refusal(config, 3).find("mesh.tensor = 3 does not divide model.layers.0.self_attn"),
            std::string::npos)
      << refusal(config, 3);
  // ranks may share a head of keys and values, but not one of queries
  config = config_of(folder, {4, 1, 6, false, false, "qwen2", 1});
  config.model.num_attention_heads = 2;
  EXPECT_NE(
      refusal(config, 4).find("mesh.tensor = 4 does not divide model.layers.0.self_attn.q_proj"
                              ".weight: 2 heads; use a divisor: 1, 2"),
      std::string::npos)
      << refusal(config, 4);
  config = config_of(folder, {4});
  config.model.intermediate_size = 58;
  EXPECT_NE(refusal(config, 4).find("58 rows or columns; use a divisor: 1, 2, 29, 58"),
            std::string::npos)
      << refusal(config, 4);
  config = config_of(folder, {2, 1, 3, true});
  config.data.sequence_length = 15;
  EXPECT_NE(refusal(config, 2).find(
                "cuts 45 tokens (train.micro_batch_size 3 x data.sequence_length 15) over 2 ranks"),
            std::string::npos)
      << refusal(config, 2);
}

}  // namespace
}  // namespace cleave
