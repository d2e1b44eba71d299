// zero and fsdp send the bytes, and hold the memory, that they predict and that the formulas say.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "core/planned_run.h"
#include "measured_memory.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

struct Sharding {
  std::string strategy;
  Options options = {};
};

void PrintTo(const Sharding& sharding, std::ostream* out) {
  *out << sharding.strategy;
  for (const auto& [key, value] : sharding.options) *out << ", " << key << " " << value;
}

// Micro-batches of one sequence.
RunConfig config_of(const test::TemporaryFolder& folder, const Sharding& sharding, int data_ranks,
                    int num_micro_batches) {
  RunConfig config = test::tiny_config(folder);
  config.train.steps = 2;
  config.train.micro_batch_size = 1;
  config.train.global_batch_size = data_ranks * num_micro_batches;
  config.strategies = {test::strategy(sharding.strategy, sharding.options)};
  return config;
}

void expect_sent_as_predicted(const RunConfig& config, int ranks) {
  double predicted = 0;  // the largest rank's, as measured
  for (int rank = 0; rank < ranks; ++rank)
    predicted = std::max(predicted, PlannedRun(config, ranks, rank).plan.wire_bytes_per_step());
  const auto results = test::run_ranks(config, ranks);
  EXPECT_NEAR(results[0].records.back().wire_bytes / predicted, 1.0, 0.01)
      << config.train.dtype << ", " << ranks << " ranks, global batch "
      << config.train.global_batch_size;
}

class ShardingBytes : public testing::TestWithParam<Sharding> {};
INSTANTIATE_TEST_SUITE_P(
    Strategies, ShardingBytes,
    testing::Values(Sharding{"zero", {{"stage", "1"}}}, Sharding{"zero", {{"stage", "2"}}},
                    Sharding{"zero", {{"stage", "2"}, {"accumulation", "\"reduce-once\""}}},
                    Sharding{"zero", {{"stage", "3"}}},
                    Sharding{"zero", {{"stage", "3"}, {"persistence_threshold", "40"}}},
                    Sharding{"fsdp"}, Sharding{"fsdp", {{"prefetch_units", "3"}}},
                    Sharding{"fsdp", {{"reshard_after_forward", "\"false\""}}},
                    Sharding{"fsdp", {{"accumulation", "\"reduce-once\""}}}));

TEST_P(ShardingBytes, SentPerStepArePredicted) {
  const test::TemporaryFolder folder;
  for (const char* dtype : {"float32", "bfloat16"})
    for (int ranks : {2, 3, 4})
      for (int num_micro_batches : {1, 3}) {
        RunConfig config = config_of(folder, GetParam(), ranks, num_micro_batches);
        config.train.dtype = dtype;
        config.model.tie_word_embeddings = ranks == 3;
        expect_sent_as_predicted(config, ranks);
      }
}

TEST_P(ShardingBytes, SentUnderPipelineArePredicted) {
  const test::TemporaryFolder folder;
  for (const char* schedule : {"\"1f1b\"", "\"gpipe\"", "\"zb-h1\""}) {
    RunConfig config = config_of(folder, GetParam(), 2, 3);
    config.strategies.push_back(test::strategy("pipeline", {{"schedule", schedule}}));
    config.mesh = {{"pipeline", 2}};
    expect_sent_as_predicted(config, 4);
  }
}

TEST_P(ShardingBytes, HeldArePredictedToTheByte) {
  const test::TemporaryFolder folder;
  for (const char* dtype : {"float32", "bfloat16"})
    for (int ranks : {2, 3}) {
      RunConfig config = config_of(folder, GetParam(), ranks, 2);
      config.train.dtype = dtype;
      config.model.tie_word_embeddings = ranks == 3;
      for (const test::MeasuredMemory& rank : test::measure_memory(config, ranks))
        for (MemoryCategory category :
             {MemoryCategory::parameters, MemoryCategory::master, MemoryCategory::gradients}) {
          const auto i = static_cast<size_t>(category);
          EXPECT_EQ(rank.peak[i], rank.predicted[i])
              << to_string(category) << ", " << dtype << ", " << ranks << " ranks";
        }
    }
}

TEST(HybridBytes, SentPerStepArePredicted) {
  const test::TemporaryFolder folder;
  for (const auto& [ranks, shard_size] : {std::pair{4, "2"}, {6, "2"}, {6, "3"}, {3, "1"}})
    for (int num_micro_batches : {1, 3})
      expect_sent_as_predicted(
          config_of(folder, {"fsdp", {{"shard_size", shard_size}}}, ranks, num_micro_batches),
          ranks);
}

// zero-1 2 P, zero-2 (G + 1) P, zero-3 and fsdp 3 G P, each x 4 (N-1)/N bytes; a unit that runs
// twice in a row is gathered once.
TEST(ShardingFormulas, SentPerStep) {
  const test::TemporaryFolder folder;
  constexpr int kRanks = 4;
  for (double micro_batches : {1, 3}) {
    const auto predicted = [&](const Sharding& sharding) {
      const RunConfig config = config_of(folder, sharding, kRanks, static_cast<int>(micro_batches));
      const PlannedRun run(config, kRanks, 0);
      const double bytes = 4.0 * (kRanks - 1) / kRanks;
      return run.plan.wire_bytes_per_step() /
             (bytes * static_cast<double>(run.model.table.num_elements()));
    };
    EXPECT_NEAR(predicted({"zero", {{"stage", "1"}}}), 2, 0.02);
    EXPECT_NEAR(predicted({"zero", {{"stage", "2"}}}), micro_batches + 1, 0.02 * micro_batches);
    for (const Sharding& whole : {Sharding{"zero", {{"stage", "3"}}}, Sharding{"fsdp"}}) {
      EXPECT_LE(predicted(whole), 3 * micro_batches * 1.02);
      EXPECT_GE(predicted(whole), 2.8 * micro_batches);
    }
  }
}

int64_t peak(const test::MeasuredMemory& rank, MemoryCategory category) {
  return rank.peak[static_cast<size_t>(category)];
}

// Of `count` units, the largest ones: what buffers of their parameters hold, aligned, and padded to
// the ranks. Tied weights are left out.
int64_t largest_units(const PlannedRun& run, int ranks, int count) {
  std::vector<int64_t> bytes;
  for (const UnitInfo& unit : run.model.unit_infos) {
    int64_t elements = 16 * ranks;
    for (const Parameter* parameter : unit.parameters)
      if (parameter->units.size() == 1) elements += (parameter->num_elements() + 15) / 16 * 16;
    bytes.push_back(4 * elements);
  }
  std::sort(bytes.begin(), bytes.end(), std::greater<>());
  return std::accumulate(bytes.begin(), bytes.begin() + count, int64_t{0});
}

int64_t shard_bytes(const PlannedRun& run) {
  int64_t bytes = 64 * static_cast<int64_t>(run.model.parameters.size());  // alignment
  for (const Parameter* parameter : run.model.parameters)
    bytes += 4 * parameter->state_placement.num_elements();
  return bytes;
}

TEST(PeakParameters, AreTheShardAndTheUnitsInUse) {
  const test::TemporaryFolder folder;
  constexpr int kRanks = 4;
  for (const Sharding& sharding : {Sharding{"fsdp"}, Sharding{"zero", {{"stage", "3"}}}})
    for (int prefetch : {0, 1, 2}) {
      Sharding with_prefetch = sharding;
      with_prefetch.options.push_back({"prefetch_units", std::to_string(prefetch)});
      const RunConfig config = config_of(folder, with_prefetch, kRanks, 2);
      const auto results = test::measure_memory(config, kRanks);
      for (int rank = 0; rank < kRanks; ++rank) {
        const PlannedRun run(config, kRanks, rank);
        const int64_t bound = shard_bytes(run) + largest_units(run, kRanks, 1 + prefetch);
        EXPECT_LE(peak(results[rank], MemoryCategory::parameters), bound)
            << sharding.strategy << ", prefetch " << prefetch;
        EXPECT_LT(bound, 4 * run.model.table.num_elements());  // else it would say nothing
      }
    }
}

TEST(PeakGradients, AreTheShardAndTwoBuckets) {
  const test::TemporaryFolder folder;
  constexpr int kRanks = 4;
  for (const Sharding& sharding :
       {Sharding{"zero", {{"stage", "2"}, {"bucket_bytes", "4"}}}, Sharding{"fsdp"}})
    for (bool tied : {false, true})
      for (int num_micro_batches : {1, 4}) {
        RunConfig config = config_of(folder, sharding, kRanks, num_micro_batches);
        config.model.tie_word_embeddings = tied;
        const PlannedRun run(config, kRanks, 0);
        const int64_t tied_bytes =
            tied ? 4 * config.model.vocab_size * config.model.hidden_size + 64 * kRanks : 0;
        const int64_t bound = shard_bytes(run) + largest_units(run, kRanks, 2) + tied_bytes;
        for (const test::MeasuredMemory& rank : test::measure_memory(config, kRanks))
          EXPECT_LE(peak(rank, MemoryCategory::gradients), bound)
              << sharding.strategy << (tied ? ", tied" : "") << ", " << num_micro_batches;
        EXPECT_LT(bound, 4 * run.model.table.num_elements());
      }
}

TEST(PeakMemory, DoesNotGrowWithAccumulation) {
  const test::TemporaryFolder folder;
  for (const Sharding& sharding :
       {Sharding{"zero", {{"stage", "2"}}}, Sharding{"zero", {{"stage", "3"}}}, Sharding{"fsdp"}}) {
    const auto total = [&](int num_micro_batches) {
      const RunConfig config = config_of(folder, sharding, 3, num_micro_batches);
      return static_cast<double>(test::measure_memory(config, 3)[0].peak_total);
    };
    EXPECT_NEAR(total(4) / total(1), 1.0, 0.05) << sharding.strategy;
  }
}

// 16 bytes of states a parameter, divided by the ranks, and the layer's activations.
TEST(PeakMemory, GrowsByTheShareOfAnAddedLayer) {
  const test::TemporaryFolder folder;
  constexpr int kRanks = 4;
  std::map<int, test::MeasuredMemory> by_layers;
  int64_t layer_elements = 0;
  for (int layers : {8, 16, 32}) {
    RunConfig config = config_of(folder, {"fsdp"}, kRanks, 1);
    config.model.num_hidden_layers = layers;
    by_layers[layers] = test::measure_memory(config, kRanks)[0];
    const PlannedRun run(config, kRanks, 0);
    layer_elements = 0;
    for (const Parameter* parameter : run.model.unit_infos[1].parameters)
      layer_elements += parameter->num_elements();
  }
  const double share = static_cast<double>(layer_elements) / kRanks;
  for (const auto& [few, many] : {std::pair{8, 16}, {16, 32}}) {
    const auto added = [&](MemoryCategory category) {
      return static_cast<double>(peak(by_layers[many], category) - peak(by_layers[few], category)) /
             (many - few);
    };
    EXPECT_NEAR(added(MemoryCategory::parameters) / (4 * share), 1.0, 0.02);
    EXPECT_NEAR(added(MemoryCategory::gradients) / (4 * share), 1.0, 0.02);
    EXPECT_NEAR(added(MemoryCategory::optimizer) / (8 * share), 1.0, 0.02);
    const auto total = by_layers[many].peak_total - by_layers[few].peak_total;
    EXPECT_LE(static_cast<double>(total) / (many - few),
              16 * share + 1.02 * added(MemoryCategory::activations));
  }
}

}  // namespace
}  // namespace cleave
