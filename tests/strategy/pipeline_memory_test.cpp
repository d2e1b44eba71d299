// Activations of pipeline ranks: how they depend on the schedule and on the number of
// micro-batches.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/planned_run.h"
#include "measured_memory.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

constexpr int kStages = 3;

RunConfig config_of(const test::TemporaryFolder& folder, const char* schedule, int micro_batches) {
  RunConfig config = test::tiny_config(folder);
  config.train.steps = 2;
  config.train.micro_batch_size = 2;
  config.train.global_batch_size = 2 * micro_batches;
  config.data.sequence_length = 31;
  config.mesh = {{"pipeline", kStages}};
  config.strategies = {test::strategy("pipeline", {{"schedule", schedule}})};
  return config;
}

std::vector<int64_t> peak_activations(const RunConfig& config) {
  std::vector<int64_t> peaks;
  for (const test::MeasuredMemory& rank : test::measure_memory(config, kStages))
    peaks.push_back(rank.peak[static_cast<size_t>(MemoryCategory::activations)]);
  return peaks;
}

// One activation that has arrived early and one that the neighbour has not taken yet: whether they
// are there at the fullest moment depends on time.
int64_t bytes_on_their_way(const RunConfig& config) {
  return 2 * 4 * config.train.micro_batch_size * config.data.sequence_length *
         config.model.hidden_size;
}

TEST(PipelineMemory, Of1f1bDoesNotGrowWithTheMicroBatches) {
  const test::TemporaryFolder folder;
  const RunConfig config = config_of(folder, "\"1f1b\"", 4);
  const auto few = peak_activations(config);
  const auto many = peak_activations(config_of(folder, "\"1f1b\"", 16));
  for (int stage = 0; stage < kStages; ++stage)
    EXPECT_LE(std::abs(many[stage] - few[stage]), bytes_on_their_way(config)) << stage;
}

TEST(PipelineMemory, OfGpipeGrowsWithTheMicroBatches) {
  const test::TemporaryFolder folder;
  const auto few = peak_activations(config_of(folder, "\"gpipe\"", 4));
  const auto many = peak_activations(config_of(folder, "\"gpipe\"", 16));
  for (int stage = 0; stage < kStages; ++stage) EXPECT_GT(many[stage], 3 * few[stage]) << stage;
}

// Of one micro-batch between the halves of its backward: for each product its input and its
// output's gradient, for the embedding its output's, and gradients of norms and biases as they are.
int64_t queued_bytes(const PlannedRun& run) {
  int64_t bytes = 0;
  const int64_t tokens = run.shape.sequences * run.shape.tokens;
  for (const UnitInfo& unit : run.model.unit_infos)
    for (const Parameter* parameter : unit.parameters) {
      if (parameter->shape.size() == 1)
        bytes += 4 * parameter->num_elements();
      else if (unit.kind == UnitKind::embedding)
        bytes += 4 * tokens * parameter->shape[1];
      else
        bytes += 4 * tokens * (parameter->shape[0] + parameter->shape[1]);
    }
  return bytes;
}

int most_queued(const std::vector<Action>& actions) {
  int queued = 0, most = 0;
  for (const Action& action : actions) {
    if (action.kind == Action::Kind::backward_input) most = std::max(most, ++queued);
    if (action.kind == Action::Kind::backward_weight) --queued;
  }
  return most;
}

TEST(PipelineMemory, OfZeroBubbleIs1f1bsAndTheQueuedWeightGradients) {
  const test::TemporaryFolder folder;
  constexpr int kMicroBatches = 7;
  const RunConfig config = config_of(folder, "\"zb-h1\"", kMicroBatches);
  const auto zero_bubble = peak_activations(config);
  const auto one_by_one = peak_activations(config_of(folder, "\"1f1b\"", kMicroBatches));
  for (int stage = 0; stage < kStages; ++stage) {
    const PlannedRun run(config, kStages, stage);
    const int64_t bound = one_by_one[stage] + most_queued(run.actions()) * queued_bytes(run) +
                          bytes_on_their_way(config);
    EXPECT_LE(zero_bubble[stage], bound) << "stage " << stage << ", 1f1b " << one_by_one[stage];
  }
}

}  // namespace
}  // namespace cleave
