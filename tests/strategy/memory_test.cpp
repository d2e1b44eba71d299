// The memory that a plan predicts is the memory that the run's account sees, by category and at the
// fullest moment.
#include <gtest/gtest.h>

#include "measured_memory.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

using test::strategy;

struct Shape {
  const char* name;
  int vocab_size, hidden_size, intermediate_size, layers, heads, kv_heads;
  int sequence_length, micro_batch_size;
};
constexpr Shape kWideVocabulary{"wide vocabulary", 12007, 64, 160, 3, 4, 2, 64, 2};
constexpr Shape kLongSequence{"long sequence", 211, 96, 192, 2, 6, 2, 1531, 1};
constexpr Shape kManyHeads{"many heads", 401, 96, 200, 6, 8, 4, 128, 2};
constexpr Shape kManyLayers{"many layers", 307, 96, 256, 19, 3, 1, 128, 2};

struct Case {
  Shape shape;
  const char* dtype;
  int ranks;
  std::vector<PluginTable> strategies;
  std::map<std::string, int> mesh = {};
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.shape.name << ", " << c.dtype << ", " << c.ranks << " ranks";
  for (const PluginTable& table : c.strategies) {
    *out << ", " << table.name;
    for (const auto& option : table.options) *out << " " << option.key << " " << option.toml;
  }
}

PluginTable zero(const char* stage) {
  return strategy("zero", {{"stage", stage}});
}
PluginTable recompute(const char* mode, const char* every = "1") {
  return strategy("activation-checkpoint", {{"mode", mode}, {"every", every}});
}
const char* kFull = "\"full\"";
const char* kSelective = "\"selective\"";

// Two micro-batches a step: the second finds gradients to add to.
RunConfig config_of(const test::TemporaryFolder& folder, const Case& c) {
  RunConfig config = test::tiny_config(folder);
  ModelConfig& model = config.model;
  model.vocab_size = c.shape.vocab_size;
  model.hidden_size = c.shape.hidden_size;
  model.intermediate_size = c.shape.intermediate_size;
  model.num_hidden_layers = c.shape.layers;
  model.num_attention_heads = c.shape.heads;
  model.num_key_value_heads = c.shape.kv_heads;
  model.head_dim = c.shape.hidden_size / c.shape.heads;
  model.initializer_range = 0.02;
  config.data.sequence_length = c.shape.sequence_length;
  config.train.steps = 2;
  config.train.micro_batch_size = c.shape.micro_batch_size;
  config.train.global_batch_size = c.shape.micro_batch_size * c.ranks * 2;
  config.train.dtype = c.dtype;
  config.strategies = c.strategies;
  config.mesh = c.mesh;
  return config;
}

PluginTable tensor_parallel(const char* sequence_parallel) {
  return strategy("tensor-parallel", {{"sequence_parallel", sequence_parallel}});
}
PluginTable pipeline(const char* schedule, const char* virtual_stages = "1") {
  return strategy("pipeline", {{"schedule", schedule}, {"virtual_stages", virtual_stages}});
}

class PredictedMemory : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Float32, PredictedMemory,
    testing::Values(Case{kWideVocabulary, "float32", 1, {}},
                    Case{kWideVocabulary, "float32", 3, {zero("2"), recompute(kSelective)}},
                    Case{kWideVocabulary, "float32", 2, {zero("3"), recompute(kFull)}},
                    Case{kLongSequence, "float32", 2, {strategy("ddp"), recompute(kFull)}},
                    Case{kLongSequence, "float32", 3, {zero("1")}},
                    Case{kLongSequence, "float32", 1, {recompute(kSelective)}},
                    Case{kManyLayers, "float32", 1, {recompute(kFull)}},
                    Case{kManyLayers, "float32", 2, {zero("2"), recompute(kFull, "3")}},
                    Case{kManyLayers, "float32", 3, {zero("3")}},
                    Case{kManyLayers, "float32", 4, {strategy("fsdp"), recompute(kFull)}},
                    Case{kManyLayers, "float32", 2, {strategy("fsdp"), recompute(kSelective)}}));
INSTANTIATE_TEST_SUITE_P(
    Bfloat16, PredictedMemory,
    testing::Values(Case{kWideVocabulary, "bfloat16", 2, {strategy("ddp"), recompute(kSelective)}},
                    Case{kWideVocabulary, "bfloat16", 3, {zero("3")}},
                    Case{kLongSequence, "bfloat16", 1, {}},
                    Case{kLongSequence, "bfloat16", 2, {zero("2"), recompute(kFull)}},
                    Case{kLongSequence, "bfloat16", 2, {strategy("fsdp"), recompute(kSelective)}},
                    Case{kManyLayers, "bfloat16", 3, {zero("1"), recompute(kSelective)}},
                    Case{kManyLayers, "bfloat16", 3, {strategy("fsdp"), recompute(kFull)}}));

INSTANTIATE_TEST_SUITE_P(
    ModelParallel, PredictedMemory,
    testing::Values(
        Case{kManyHeads, "float32", 2, {tensor_parallel("false")}, {{"tensor", 2}}},
        Case{kManyHeads, "float32", 2, {tensor_parallel("true")}, {{"tensor", 2}}},
        Case{kManyHeads, "bfloat16", 2, {tensor_parallel("true")}, {{"tensor", 2}}},
        Case{kManyHeads, "float32", 2, {pipeline("\"gpipe\"")}, {{"pipeline", 2}}},
        Case{kManyHeads, "float32", 2, {pipeline("\"1f1b\"")}, {{"pipeline", 2}}},
        Case{kManyHeads, "float32", 2, {pipeline("\"zb-h1\"")}, {{"pipeline", 2}}},
        Case{kManyHeads, "bfloat16", 2, {pipeline("\"zb-h1\"")}, {{"pipeline", 2}}},
        Case{kManyLayers, "float32", 3, {pipeline("\"zb-h1\"")}, {{"pipeline", 3}}},
        Case{kManyLayers,
             "float32",
             3,
             {pipeline("\"zb-h1\""), recompute(kFull)},
             {{"pipeline", 3}}},
        Case{kManyHeads, "float32", 2, {pipeline("\"interleaved-1f1b\"", "2")}, {{"pipeline", 2}}},
        Case{kManyLayers, "float32", 3, {pipeline("\"interleaved-1f1b\"", "3")}, {{"pipeline", 3}}},
        Case{kManyHeads,
             "float32",
             4,
             {pipeline("\"1f1b\""), tensor_parallel("true")},
             {{"pipeline", 2}, {"tensor", 2}}}));

TEST_P(PredictedMemory, IsWhatTheAccountSeesOnEveryRank) {
  const test::TemporaryFolder folder;
  const auto ranks = test::measure_memory(config_of(folder, GetParam()), GetParam().ranks);
  // products of bfloat16 have scratch memory that depends on the CPU; how many activations are on
  // their way between pipeline ranks depends on time
  const bool varies =
      GetParam().dtype == std::string("bfloat16") || GetParam().mesh.contains("pipeline");
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const test::MeasuredMemory& memory = ranks[rank];
    for (size_t i = 0; i < kMemoryCategories; ++i) {
      const auto category = static_cast<MemoryCategory>(i);
      SCOPED_TRACE(message(to_string(category), " of rank ", rank));
      const double share = category == MemoryCategory::activations && varies ? 0.1 : 0.02;
      const bool has_scalars = category == MemoryCategory::other;  // and they are not planned
      test::expect_near(memory.predicted[i], memory.peak[i], share, has_scalars ? 4096 : 0);
    }
    SCOPED_TRACE(message("total of rank ", rank));
    test::expect_near(memory.predicted_total, memory.peak_total, varies ? 0.05 : 0.01);
  }
}

}  // namespace
}  // namespace cleave
