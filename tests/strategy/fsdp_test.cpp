// fsdp trains the model that one rank trains, however rows divide, and shards dim 0.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cleave/error.h"
#include "core/planned_run.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

struct Case {
  int ranks;
  int64_t micro_batch_size;  // of 12 sequences a step: sets the accumulation
  bool tied = false;
  Options options = {};
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.ranks << " ranks, micro batch " << c.micro_batch_size << (c.tied ? ", tied" : "");
  for (const auto& [key, value] : c.options) *out << ", " << key << " " << value;
}

RunConfig config_of(const test::TemporaryFolder& folder, const Case& c) {
  RunConfig config = test::tiny_config(folder);
  config.train.micro_batch_size = c.micro_batch_size;
  config.train.steps = 10;
  config.model.tie_word_embeddings = c.tied;
  config.strategies = {test::strategy("fsdp", c.options)};
  return config;
}

class FsdpLayouts : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Ranks, FsdpLayouts,
                         testing::Values(Case{1, 4}, Case{2, 6}, Case{2, 2, true}, Case{3, 4, true},
                                         Case{3, 2}, Case{4, 3}, Case{4, 1, true}));
INSTANTIATE_TEST_SUITE_P(Options, FsdpLayouts,
                         testing::Values(Case{3, 1, true, {{"reshard_after_forward", "\"false\""}}},
                                         Case{2, 3, false, {{"reshard_after_forward", "\"true\""}}},
                                         Case{3, 2, true, {{"prefetch_units", "0"}}},
                                         Case{4, 1, false, {{"prefetch_units", "3"}}},
                                         Case{3, 1, true, {{"accumulation", "\"reduce-once\""}}},
                                         Case{2, 2, false, {{"accumulation", "\"reduce-once\""}}},
                                         Case{3, 2, true, {{"overlap", "false"}}}));
INSTANTIATE_TEST_SUITE_P(
    Hybrid, FsdpLayouts,
    testing::Values(
        Case{4, 3, false, {{"shard_size", "2"}}}, Case{4, 1, true, {{"shard_size", "2"}}},
        Case{6, 1, true, {{"shard_size", "3"}}}, Case{6, 2, false, {{"shard_size", "2"}}},
        Case{6, 1, false, {{"shard_size", "2"}, {"overlap", "false"}}},
        Case{4, 1, true, {{"shard_size", "2"}, {"accumulation", "\"reduce-once\""}}},
        Case{3, 2, false, {{"shard_size", "3"}}}, Case{3, 2, true, {{"shard_size", "1"}}}));

TEST_P(FsdpLayouts, EqualsOneRank) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, GetParam());
  const auto ranks = test::run_ranks(config, GetParam().ranks);
  config.strategies.clear();
  test::expect_same_training(ranks, test::run_ranks(config, 1)[0]);
}

TEST_P(FsdpLayouts, RepeatsBitwiseOnEveryRank) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, GetParam());
  config.train.steps = 3;
  const auto first = test::run_ranks(config, GetParam().ranks);
  for (const test::RunResult& rank : test::run_ranks(config, GetParam().ranks))
    test::expect_bitwise_equal(rank, first[0]);
}

// k_proj and v_proj have 2 rows: with 3 and 4 ranks the last ones hold none of them.
RunConfig few_rows(const test::TemporaryFolder& folder) {
  RunConfig config = config_of(folder, {3, 1});
  config.model.hidden_size = 30;
  config.model.intermediate_size = 53;
  config.model.num_attention_heads = 3;
  config.model.num_key_value_heads = 1;
  config.model.head_dim = 2;
  return config;
}

TEST(Fsdp, TrainsWhereRanksHoldNoRowsOfSomeParameters) {
  const test::TemporaryFolder folder;
  for (int ranks : {3, 4}) {
    RunConfig config = few_rows(folder);
    const auto sharded = test::run_ranks(config, ranks);
    config.strategies.clear();
    test::expect_same_training(sharded, test::run_ranks(config, 1)[0]);
  }
}

// [begin, end) of each rank's rows, by torch.chunk itself.
std::vector<Piece> chunks(int64_t rows, int ranks) {
  std::vector<Piece> pieces;
  int64_t begin = 0;
  for (const at::Tensor& chunk : at::empty({rows}).chunk(ranks)) {
    pieces.push_back({Piece::Unit::row, begin, begin + chunk.numel()});
    begin += chunk.numel();
  }
  pieces.resize(ranks, {Piece::Unit::row, rows, rows});
  return pieces;
}

TEST(Fsdp, ShardsRowsOfEachParameterAsTorchChunk) {
  const test::TemporaryFolder folder;
  const RunConfig config = few_rows(folder);
  for (int ranks : {2, 3, 4})
    for (int rank = 0; rank < ranks; ++rank) {
      const PlannedRun run(config, ranks, rank);
      for (const Parameter* parameter : run.model.parameters) {
        const Placement& state = parameter->state_placement;
        EXPECT_EQ(state.piece, chunks(parameter->shape[0], ranks)[rank]) << parameter->name;
        EXPECT_EQ(state.kind("data"), AxisKind::shard);
        EXPECT_EQ(parameter->value_placement, state) << parameter->name;
        EXPECT_EQ(parameter->gradient_placement, state) << parameter->name;
      }
    }
}

TEST(Fsdp, IsNotZeroWithAnotherName) {
  const test::TemporaryFolder folder;
  RunConfig config = few_rows(folder);
  config.strategies = {test::strategy("zero", {{"stage", "3"}})};
  const PlannedRun run(config, 3, 1);
  for (const Parameter* parameter : run.model.parameters)
    EXPECT_EQ(parameter->state_placement.piece->unit, Piece::Unit::element) << parameter->name;
}

TEST(Fsdp, HybridGroupsHoldEqualRows) {
  const test::TemporaryFolder folder;
  RunConfig config = few_rows(folder);
  config.strategies = {test::strategy("fsdp", {{"shard_size", "3"}})};
  for (int rank = 0; rank < 6; ++rank) {
    const PlannedRun run(config, 6, rank);
    for (const Parameter* parameter : run.model.parameters) {
      EXPECT_EQ(parameter->state_placement.piece, chunks(parameter->shape[0], 3)[rank % 3]);
      EXPECT_EQ(parameter->state_placement.kind("data.inner"), AxisKind::shard);
      EXPECT_EQ(parameter->state_placement.kind("data.outer"), AxisKind::replicate);
    }
  }
}

// What a rank gathers in a step, in bytes on the wire.
double gathered_bytes(const RunConfig& config) {
  double bytes = 0;
  const PlannedRun run(config, 4, 0);
  for (const SolvedPlan::Use& use : run.plan.communication)
    if (use.use.op == CLEAVE_ALL_GATHER) bytes += use.use.wire_bytes_per_step;
  return bytes;
}

TEST(Fsdp, KeepsUnitsWholeUnderPipelineUnlessTold) {
  const test::TemporaryFolder folder;
  const auto gathered = [&](const char* reshard, bool with_pipeline) {
    RunConfig config = config_of(folder, {2, 1, false, {{"reshard_after_forward", reshard}}});
    if (with_pipeline) {
      config.strategies.push_back(test::strategy("pipeline"));
      config.mesh = {{"pipeline", 2}};
    }
    return gathered_bytes(config);
  };
  EXPECT_EQ(gathered("\"auto\"", true), gathered("\"false\"", true));
  EXPECT_LT(gathered("\"auto\"", true), gathered("\"true\"", true));
  EXPECT_EQ(gathered("\"auto\"", false), gathered("\"true\"", false));
}

RunConfig bfloat16(RunConfig config) {
  config.train.dtype = "bfloat16";
  config.train.steps = 5;
  return config;
}

// Both compute with the same rounded weights and sum float32 gradients in rank order.
TEST(Fsdp, InBfloat16GradientsHaveTheBitsOfDdp) {
  const test::TemporaryFolder folder;
  for (const char* accumulation : {"\"reduce-each\"", "\"reduce-once\""})
    for (int ranks : {2, 3}) {
      const int64_t micro_batch_size = *(accumulation + 8) == 'o' ? 2 : 12 / ranks;
      RunConfig config = bfloat16(
          config_of(folder, {ranks, micro_batch_size, true, {{"accumulation", accumulation}}}));
      const auto sharded = test::run_ranks(config, ranks);
      config.strategies = {test::strategy("ddp")};
      const auto replicated = test::run_ranks(config, ranks);
      for (const auto& [name, gradient] : replicated[0].first_gradients)
        for (const test::RunResult& rank : sharded)
          EXPECT_TRUE(test::bitwise_equal(rank.first_gradients.at(name), gradient)) << name;
    }
}

TEST(Fsdp, InBfloat16TrainsAsDdp) {
  const test::TemporaryFolder folder;
  for (const Options& options : {Options{}, Options{{"reshard_after_forward", "\"false\""}}}) {
    RunConfig config = bfloat16(config_of(folder, {3, 2, true, options}));
    const auto sharded = test::run_ranks(config, 3);
    config.strategies = {test::strategy("ddp")};
    const auto replicated = test::run_ranks(config, 3);
    for (size_t step = 0; step < 5; ++step) {
      const StepRecord& expected = replicated[0].records[step];
      EXPECT_NEAR(sharded[0].records[step].loss / expected.loss, 1.0, step == 0 ? 1e-6 : 1e-3);
      EXPECT_NEAR(sharded[0].records[step].grad_norm / expected.grad_norm, 1.0, 1e-2);
    }
    for (const auto& [name, weight] : replicated[0].final_weights)
      EXPECT_LE(test::relative_difference(sharded[0].final_weights.at(name), weight), 1e-2) << name;
  }
}

void expect_refusal(const RunConfig& config, int ranks, const std::vector<std::string>& parts) {
  try {
    const PlannedRun run(config, ranks, 0);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << part << "\n in " << error.what();
  }
}

TEST(Fsdp, RefusesAShardSizeThatDoesNotDivideTheAxis) {
  const test::TemporaryFolder folder;
  for (const char* size : {"4", "5", "12"})
    expect_refusal(config_of(folder, {6, 2, false, {{"shard_size", size}}}), 6,
                   {"fsdp", std::string("shard_size = ") + size,
                    "does not divide the axis data of size 6; use 1, 2, 3 or 6"});
}

TEST(Fsdp, RefusesAParameterThatTheDataAxisShardsAlready) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder, {2, 2});
  config.strategies.push_back(test::strategy("zero", {{"stage", "3"}}));
  expect_refusal(config, 2,
                 {"strategy zero splits the axis data, and so does", "strategy fsdp",
                  "remove [strategy.fsdp] or [strategy.zero]"});
}

}  // namespace
}  // namespace cleave
