// What a run was predicted to hold, and what its memory account saw.
#pragma once

#include <vector>

#include "config/run_config.h"
#include "core/memory_account.h"

namespace cleave::test {

/// Bytes of one rank.
struct MeasuredMemory {
  MemoryShares predicted, peak;
  MemoryShares after_step;  ///< held between the last step and the end
  int64_t predicted_total, peak_total;
};

/// Trains config.train.steps steps on `ranks` threads; rank r's result is [r].
std::vector<MeasuredMemory> measure_memory(const RunConfig& config, int ranks);

/// |predicted - measured| <= share x measured + bytes.
void expect_near(int64_t predicted, int64_t measured, double share, int64_t bytes = 0);

}  // namespace cleave::test
