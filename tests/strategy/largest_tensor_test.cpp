// With a vocabulary split over tensor ranks no rank ever holds logits of all of it.
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/rank.h"
#include "support/equivalence.h"

namespace cleave {
namespace {

constexpr auto kKind = c10::DebugInfoKind::PROFILER_STATE;

// Hands on what it hears to the account that was there before.
class LargestAllocation final : public c10::MemoryReportingInfoBase {
 public:
  LargestAllocation()
      : account_(
            static_cast<c10::MemoryReportingInfoBase*>(c10::ThreadLocalDebugInfo::get(kKind))) {}

  void reportMemoryUsage(void* address, int64_t bytes, size_t allocated, size_t reserved,
                         c10::Device device) override {
    largest_bytes = std::max(largest_bytes, bytes);
    account_->reportMemoryUsage(address, bytes, allocated, reserved, device);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t largest_bytes = 0;

 private:
  c10::MemoryReportingInfoBase* account_;
};

constexpr int64_t kSequences = 8, kTokens = 64, kVocabulary = 97;

// By rank, of two steps.
std::vector<int64_t> largest_allocations(int tensor_ranks, const char* sequence_parallel) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_config(folder);
  config.model.hidden_size = 16;  // so that logits are larger than activations
  config.model.intermediate_size = 16;
  config.model.head_dim = 4;
  config.model.vocab_size = kVocabulary;
  config.data.sequence_length = kTokens;
  config.train.steps = 2;
  config.train.micro_batch_size = kSequences;
  config.train.global_batch_size = kSequences;
  config.mesh = {{"tensor", tensor_ranks}};
  config.strategies = {
      test::strategy("tensor-parallel", {{"sequence_parallel", sequence_parallel}})};
  std::vector<int64_t> largest(tensor_ranks);
  run_as_threads(tensor_ranks, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                                   const std::function<void()>& on_failure) {
    run_as_rank(config, process, bootstrap, on_failure,
                [&](const TrainerContext& context, const SolvedPlan&) {
                  const auto seen = std::make_shared<LargestAllocation>();
                  const c10::DebugInfoGuard guard(kKind, seen);
                  Trainer trainer(context, nullptr);
                  for (int64_t step = 0; step < context.config.train.steps; ++step)
                    trainer.train_step(step);
                  largest[process.rank] = seen->largest_bytes;
                });
  });
  return largest;
}

TEST(LargestTensor, IsTheRanksOwnPartOfTheLogits) {
  const int64_t row_bytes = kSequences * kTokens * 4;
  EXPECT_EQ(largest_allocations(1, "false")[0], kVocabulary * row_bytes);
  for (const int ranks : {2, 4})
    for (const char* sequence_parallel : {"false", "true"}) {
      const auto largest = largest_allocations(ranks, sequence_parallel);
      for (int rank = 0; rank < ranks; ++rank) {
        const int64_t rows = kVocabulary / ranks + (rank < kVocabulary % ranks);
        EXPECT_EQ(largest[rank], rows * row_bytes)
            << ranks << " ranks, rank " << rank << ", sequence_parallel " << sequence_parallel;
      }
    }
}

}  // namespace
}  // namespace cleave
