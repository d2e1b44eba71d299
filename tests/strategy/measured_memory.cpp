#include "measured_memory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/rank.h"

namespace cleave::test {

namespace {

MeasuredMemory read(const SolvedPlan& plan, const MemoryAccount& account) {
  MeasuredMemory memory{};
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    memory.predicted[i] = plan.memory_bytes(category);
    memory.peak[i] = account.peak_bytes(category);
    memory.after_step[i] = account.current_bytes(category);
  }
  memory.predicted_total = plan.memory_bytes();
  memory.peak_total = account.peak_bytes();
  return memory;
}

}  // namespace

std::vector<MeasuredMemory> measure_memory(const RunConfig& config, int ranks) {
  std::vector<MeasuredMemory> measured(ranks);
  run_as_threads(ranks, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                            const std::function<void()>& on_failure) {
    run_as_rank(config, process, bootstrap, on_failure,
                [&](const TrainerContext& context, const SolvedPlan& plan) {
                  Trainer trainer(context, nullptr);
                  for (int64_t step = 0; step < context.config.train.steps; ++step)
                    trainer.train_step(step);
                  measured[context.rank] = read(plan, context.memory);
                });
  });
  return measured;
}

void expect_near(int64_t predicted, int64_t measured, double share, int64_t bytes) {
  EXPECT_LE(std::abs(static_cast<double>(predicted - measured)),
            share * static_cast<double>(measured) + static_cast<double>(bytes))
      << "predicted " << predicted << ", measured " << measured;
}

}  // namespace cleave::test
