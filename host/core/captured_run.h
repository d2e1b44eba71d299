// A run whose numbers are kept instead of reported: what verify and the tests compare.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/rank.h"
#include "report/step_record.h"

namespace cleave {

using NamedTensors = std::map<std::string, at::Tensor>;

struct CapturedRun {
  std::vector<StepRecord> records;
  NamedTensors initial_weights;
  NamedTensors first_gradients;  ///< of step 1, reduced, before clipping
  NamedTensors final_weights;
  std::map<MemoryCategory, int64_t>
      peak_bytes;  ///< of this rank's tensors, each over the whole run
};

/// Runs config.train.steps steps with what run_as_rank prepared.
CapturedRun capture(const TrainerContext& context);

/// The same as one rank from start to end.
CapturedRun run_captured(const RunConfig& config, const ProcessInfo& process,
                         const Bootstrap& bootstrap, const std::function<void()>& on_failure);

}  // namespace cleave
