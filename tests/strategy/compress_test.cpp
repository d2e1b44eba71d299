// Runs whose gradients are compressed: same bits on all ranks, near the exact run, with the bytes
// and the memory that they say.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <mutex>

#include "cleave/error.h"
#include "core/planned_run.h"
#include "core/rank.h"
#include "measured_memory.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

const Options kInt8 = {}, kBf16 = {{"wire", "\"bf16\""}},
              kForgetful = {{"error_feedback", "false"}}, kPairs = {{"ranks_per_machine", "2"}};

struct Case {
  PluginTable reducer;
  int ranks;
  Options wire;
  int64_t micro_batch_size = 2;
  bool tied = false;
  std::map<std::string, int> mesh = {};
  std::vector<PluginTable> others = {};
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.reducer.name;
  for (const auto& option : c.reducer.options) *out << " " << option.key << " " << option.toml;
  *out << " on " << c.ranks << ", micro batch " << c.micro_batch_size << (c.tied ? ", tied" : "");
  for (const auto& [key, value] : c.wire) *out << ", " << key << " " << value;
  for (const PluginTable& other : c.others) *out << ", " << other.name;
}

PluginTable zero(const char* stage, const char* accumulation = "\"auto\"") {
  return test::strategy("zero", {{"stage", stage}, {"accumulation", accumulation}});
}

// Of the exact run; `compressed` adds to it.
RunConfig config_of(const test::TemporaryFolder& folder, const Case& c) {
  RunConfig config = test::tiny_config(folder);
  config.train.micro_batch_size = c.micro_batch_size;
  config.train.steps = 6;
  config.model.tie_word_embeddings = c.tied;
  config.mesh = c.mesh;
  config.strategies = {c.reducer};
  for (const PluginTable& other : c.others) config.strategies.push_back(other);
  return config;
}

RunConfig compressed(RunConfig config, const Options& options) {
  config.strategies.push_back(test::strategy("compress", options));
  return config;
}

class Compressed : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Layouts, Compressed,
    testing::Values(
        Case{test::strategy("ddp"), 2, kInt8, 6}, Case{test::strategy("ddp"), 3, kInt8, 2, true},
        Case{test::strategy("ddp", {{"bucket_bytes", "9000"}}), 3, kInt8, 4},
        Case{test::strategy("ddp", {{"bucket_bytes", "9000"}}), 2, kBf16, 3, true},
        Case{test::strategy("ddp"), 4, kForgetful, 1}, Case{zero("1"), 3, kInt8, 2, true},
        Case{zero("1"), 2, kBf16, 3}, Case{zero("2"), 2, kInt8, 2},
        Case{zero("2"), 3, kInt8, 1, true}, Case{zero("2", "\"reduce-once\""), 3, kInt8, 2},
        Case{zero("2"), 3, kBf16, 2, true}, Case{zero("3"), 3, kInt8, 2, true},
        Case{test::strategy("fsdp"), 2, kInt8, 3, true}, Case{test::strategy("fsdp"), 3, kInt8, 2},
        Case{test::strategy("fsdp"), 4, kBf16, 1},
        Case{test::strategy("ddp", {{"bucket_bytes", "9000"}}), 4, kPairs, 3, true},
        Case{zero("1"), 6, {{"ranks_per_machine", "3"}}, 1, true}, Case{zero("2"), 4, kPairs, 3},
        Case{zero("3"), 4, kPairs, 1}, Case{test::strategy("fsdp"), 4, kPairs, 3, true},
        Case{test::strategy("ddp"), 2, kPairs, 6}));
const Case kThreeAxes{test::strategy("ddp"),
                      8,
                      kInt8,
                      3,
                      true,
                      {{"data", 2}, {"tensor", 2}, {"pipeline", 2}},
                      {test::strategy("tensor-parallel"), test::strategy("pipeline")}};
INSTANTIATE_TEST_SUITE_P(
    ManyAxes, Compressed,
    testing::Values(
        kThreeAxes,
        Case{zero("1"), 4, kInt8, 3, true, {{"tensor", 2}}, {test::strategy("tensor-parallel")}},
        Case{test::strategy("fsdp"),
             4,
             kInt8,
             3,
             true,
             {{"pipeline", 2}},
             {test::strategy("pipeline")}},
        Case{zero("2"), 8, kPairs, 3, true, {{"tensor", 2}}, {test::strategy("tensor-parallel")}},
        Case{zero("2"),
             6,
             kBf16,
             2,
             false,
             {{"tensor", 2}},
             {test::strategy("tensor-parallel", {{"sequence_parallel", "true"}})}}));

// Step 1 has the weights of the exact run: equal loss; its gradient is off by what a byte or
// bfloat16 can't say. Later the weights differ.
TEST_P(Compressed, TrainsNearTheExactRunAlikeOnEveryRank) {
  const test::TemporaryFolder folder;
  const RunConfig config = config_of(folder, GetParam());
  const auto exact = test::run_ranks(config, GetParam().ranks);
  const auto ranks = test::run_ranks(compressed(config, GetParam().wire), GetParam().ranks);
  for (const test::RunResult& rank : ranks) {
    test::expect_bitwise_equal(rank, ranks[0]);
    EXPECT_EQ(rank.records[0].loss, exact[0].records[0].loss);
    EXPECT_NE(rank.records[0].grad_norm, exact[0].records[0].grad_norm);
    EXPECT_NEAR(rank.records[0].grad_norm / exact[0].records[0].grad_norm, 1, 0.01);
    for (size_t step = 0; step < exact[0].records.size(); ++step)
      EXPECT_NEAR(rank.records[step].loss / exact[0].records[step].loss, 1, 0.01) << step;
  }
}

TEST_P(Compressed, RepeatsBitwise) {
  const test::TemporaryFolder folder;
  RunConfig config = compressed(config_of(folder, GetParam()), GetParam().wire);
  config.train.steps = 3;
  const auto first = test::run_ranks(config, GetParam().ranks);
  test::expect_bitwise_equal(test::run_ranks(config, GetParam().ranks)[0], first[0]);
}

// What the ranks along the data axis hold of it together.
at::Tensor whole(const TrainerContext& context, const Parameter& parameter) {
  const Placement& placement = parameter.state_placement;
  if (!placement.piece) return parameter.master.flatten();
  at::Tensor values = at::zeros({placement.box.num_elements()});
  values.narrow(0, placement.piece->begin, parameter.master.numel())
      .copy_(parameter.master.flatten());
  context.communicators.axis("data").all_reduce(values).wait();
  return values;
}

// Ranks along an axis that replicates a parameter go on to hold equal values of it.
void expect_equal_copies(const TrainerContext& context, const std::string& axis) {
  Comm& comm = context.communicators.axis(axis);
  for (const Parameter* parameter : context.parameters) {
    if (parameter->state_placement.kind(axis) != AxisKind::replicate) continue;
    const at::Tensor values = whole(context, *parameter);
    at::Tensor largest = values.clone(), smallest = -values;
    comm.all_reduce(largest, ReduceOp::max).wait();
    comm.all_reduce(smallest, ReduceOp::max).wait();
    EXPECT_TRUE(at::equal(largest, -smallest)) << parameter->name << " along " << axis;
  }
}

TEST(CompressedCopies, StayEqualAlongEveryAxis) {
  for (const char* sequence_parallel : {"false", "true"})
    for (const PluginTable& reducer : {test::strategy("ddp"), zero("1"), zero("2")})
      for (const auto& [ranks, options] : {std::pair{4, kInt8}, {8, kPairs}}) {
        const test::TemporaryFolder folder;
        Case c{reducer, ranks, options, 3, false, {{"tensor", 2}}};
        c.others = {test::strategy("tensor-parallel", {{"sequence_parallel", sequence_parallel}})};
        RunConfig config = compressed(config_of(folder, c), options);
        config.model.vocab_size = 137;  // uneven parts: what lies beside a norm differs by rank
        run_as_threads(ranks, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                                  const std::function<void()>& on_failure) {
          run_as_rank(config, process, bootstrap, on_failure,
                      [&](const TrainerContext& context, const SolvedPlan&) {
                        Trainer trainer(context, nullptr);
                        for (int64_t step = 0; step < 5; ++step) trainer.train_step(step);
                        for (const char* axis : {"data", "tensor"})
                          expect_equal_copies(context, axis);
                      });
        });
      }
}

TEST(CompressedAlone, DoesNothingOnOneRank) {
  const test::TemporaryFolder folder;
  for (const PluginTable& reducer : {test::strategy("ddp"), zero("2"), test::strategy("fsdp")}) {
    const RunConfig config = config_of(folder, {reducer, 1, kInt8});
    test::expect_bitwise_equal(test::run_ranks(compressed(config, kInt8), 1)[0],
                               test::run_ranks(config, 1)[0]);
  }
}

// Of what goes along the data axis for gradients.
double gradient_bytes(const PlannedRun& run) {
  double bytes = 0;
  for (const auto& [strategy, use] : run.plan.communication) {
    const bool is_exact = strategy != "compress" && use.axis == "data" &&
                          (use.op == CLEAVE_ALL_REDUCE || use.op == CLEAVE_REDUCE_SCATTER);
    if (strategy == "compress" || is_exact) bytes += use.wire_bytes_per_step;
  }
  return bytes;
}

struct Wire {
  Options options;
  double largest_share;
};

TEST(CompressedBytes, AreAQuarterOfFloat32sOrHalfAndCountedAsPredicted) {
  const test::TemporaryFolder folder;
  for (const PluginTable& reducer :
       {test::strategy("ddp"), zero("1"), zero("2"), test::strategy("fsdp")})
    for (const int ranks : {2, 3, 4, 8})
      for (const auto& [options, largest_share] : {Wire{kInt8, 0.27}, Wire{kBf16, 0.5}}) {
        SCOPED_TRACE(message(reducer.name, " on ", ranks));
        RunConfig config = config_of(folder, {reducer, ranks, options, 1});
        config.model.hidden_size = 64;
        config.model.head_dim = 16;
        config.train.steps = 2;
        config.train.global_batch_size = 2 * ranks;
        const RunConfig lossy = compressed(config, options);
        double predicted = 0, predicted_exact = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const PlannedRun run(lossy, ranks, rank), exact(config, ranks, rank);
          EXPECT_LE(gradient_bytes(run), largest_share * gradient_bytes(exact)) << rank;
          predicted = std::max(predicted, run.plan.wire_bytes_per_step());
          predicted_exact = std::max(predicted_exact, exact.plan.wire_bytes_per_step());
        }
        // the rest of a step's traffic is the same
        const double counted = test::run_ranks(lossy, ranks)[0].records.back().wire_bytes -
                               test::run_ranks(config, ranks)[0].records.back().wire_bytes;
        EXPECT_NEAR(counted, predicted - predicted_exact, 1e-9 * predicted_exact);
      }
}

// Exact sums in two levels send 2 or 1 times (M-1)/M P/k float32 from each of a machine's k ranks.
TEST(CompressedBytes, BetweenMachinesOfSeveralRanksAreAQuarterToo) {
  const test::TemporaryFolder folder;
  for (const PluginTable& reducer : {test::strategy("ddp"), zero("2"), test::strategy("fsdp")})
    for (const auto& [ranks, each] : {std::pair{8, 2}, {6, 3}}) {
      SCOPED_TRACE(message(reducer.name, " on ", ranks, ", ", each, " a machine"));
      RunConfig config = config_of(folder, {reducer, ranks, {}, 1});
      config.model.hidden_size = 64;
      config.model.head_dim = 16;
      config.train.steps = 2;
      config.train.global_batch_size = 2 * ranks;
      const RunConfig lossy = compressed(config, {{"ranks_per_machine", std::to_string(each)}});
      double between = 0, exact_sums = 0, predicted = 0, predicted_exact = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const PlannedRun run(lossy, ranks, rank), exact(config, ranks, rank);
        for (const auto& [strategy, use] : run.plan.communication)
          if (use.axis == "data.outer") between += use.wire_bytes_per_step;
        exact_sums += gradient_bytes(exact);
        predicted = std::max(predicted, run.plan.wire_bytes_per_step());
        predicted_exact = std::max(predicted_exact, exact.plan.wire_bytes_per_step());
      }
      const double machines = ranks / each;
      const double exact_between =
          exact_sums * ((machines - 1) / machines / each) / ((ranks - 1.0) / ranks);
      EXPECT_LE(between, 0.27 * exact_between);
      EXPECT_GT(between, 0.25 * exact_between);
      const double counted = test::run_ranks(lossy, ranks)[0].records.back().wire_bytes -
                             test::run_ranks(config, ranks)[0].records.back().wire_bytes;
      EXPECT_NEAR(counted, predicted - predicted_exact, 1e-9 * predicted_exact);
    }
}

TEST(CompressedMemory, IsHeldAsPredicted) {
  const test::TemporaryFolder folder;
  for (const PluginTable& reducer : {test::strategy("ddp", {{"bucket_bytes", "20000"}}), zero("1"),
                                     zero("2"), zero("3"), test::strategy("fsdp")})
    for (const int ranks : {2, 3, 4})
      for (const Options& options : {kInt8, kBf16, kForgetful, kPairs}) {
        if ((ranks == 4) != (options == kPairs)) continue;
        RunConfig config = compressed(config_of(folder, {reducer, ranks, options, 1}), options);
        config.model.vocab_size = 1009;
        config.train.steps = 2;
        for (const test::MeasuredMemory& rank : test::measure_memory(config, ranks)) {
          SCOPED_TRACE(message(reducer.name, " on ", ranks, ", ", options.size()));
          const auto gradients = static_cast<size_t>(MemoryCategory::gradients);
          const auto communication = static_cast<size_t>(MemoryCategory::communication);
          EXPECT_EQ(rank.predicted[gradients], rank.peak[gradients]);
          test::expect_near(rank.predicted[communication], rank.peak[communication], 0.02, 256);
          test::expect_near(rank.predicted_total, rank.peak_total, 0.02);
        }
      }
}

TEST(CompressedGradients, ThatAreNotFiniteStopTheRunAsWithout) {
  const test::TemporaryFolder folder;
  for (const Options& options : {kInt8, kBf16}) {
    RunConfig config = config_of(folder, {test::strategy("ddp"), 3, options});
    config.model.initializer_range = 1e20;  // the first backward overflows
    std::string exact, lossy;
    for (auto& [error, with] : {std::pair{&exact, false}, std::pair{&lossy, true}}) try {
        test::run_ranks(with ? compressed(config, options) : config, 3);
      } catch (const RuntimeError& caught) {
        *error = caught.what();
      }
    EXPECT_NE(exact.find("step 1: the gradient norm is not finite"), std::string::npos) << exact;
    EXPECT_EQ(lossy, exact);
  }
}

std::string refusal(const RunConfig& config, int ranks) {
  try {
    PlannedRun(config, ranks, 0);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CompressRefusals, NameWhatItNeeds) {
  const test::TemporaryFolder folder;
  const std::string log = message('"', (folder.path() / "log").string(), '"');
  RunConfig config =
      config_of(folder, {test::strategy("record-reducer", {{"log", log}}), 2, kInt8});
  EXPECT_EQ(refusal(compressed(config, kInt8), 2),
            "tiny.toml: strategy compress needs gradients.exchanged because it changes what a "
            "reducer of gradients sends, and no strategy of this run offers it; add one that does, "
            "or remove [strategy.compress]");
  config = config_of(folder, {test::strategy("fsdp", {{"shard_size", "2"}}), 4, kInt8, 3});
  EXPECT_EQ(refusal(compressed(config, kInt8), 4),
            "tiny.toml: strategy compress can't run with gradients.hybrid because gradients that "
            "are summed in two stages have two errors to feed back, and tiny.toml: strategy fsdp "
            "offers it; remove [strategy.fsdp] or [strategy.compress]");
  config = config_of(folder, {test::strategy("ddp"), 2, kInt8});
  EXPECT_NE(refusal(compressed(config, {{"wire", "\"int4\""}}), 2).find("int8"), std::string::npos);
  EXPECT_NE(refusal(compressed(config, {{"block", "8"}}), 2).find("16"), std::string::npos);
  EXPECT_EQ(refusal(compressed(config, {{"ranks_per_machine", "4"}}), 2),
            "tiny.toml: strategy compress: ranks_per_machine = 4 does not divide the axis data of "
            "size 2; give the number of its ranks that are on one machine, or 1");
  EXPECT_EQ(
      refusal(compressed(config, {{"ranks_per_machine", "2"}, {"wire", "\"bf16\""}}), 2),
      "tiny.toml: strategy compress: ranks_per_machine = 2, but wire = \"bf16\" has no use for "
      "it; remove ranks_per_machine, or use wire = \"int8\"");
  config = config_of(folder, {test::strategy("fsdp", {{"shard_size", "2"}}), 8, kInt8, 1});
  config.train.global_batch_size = 8;
  EXPECT_EQ(refusal(compressed(config, {{"ranks_per_machine", "4"}}), 8),
            "tiny.toml: strategy compress: it divides the axis data into groups of 4 ranks, but "
            "tiny.toml: strategy fsdp into groups of 2; remove one of the two");
}

}  // namespace
}  // namespace cleave
