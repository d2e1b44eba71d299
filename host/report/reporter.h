// Rank 0's reports: metrics.jsonl, console lines with progress and ETA, TensorBoard events,
// summary.
#pragma once

#include <filesystem>
#include <memory>
#include <ostream>

#include "config/run_config.h"
#include "step_record.h"

namespace cleave {

class Reporter {
 public:
  /// Creates the directory and opens the files (ConfigError when that fails). `console` gets one
  /// line every `config.every_steps` steps and at the first and last step.
  Reporter(const MetricsConfig& config, const RunFacts& facts, std::ostream& console);
  ~Reporter();

  void step(const StepRecord& record);
  /// The run ends after `step` because it was asked to.
  void stopped(int64_t step);
  /// Step time p50 / p95 / max, tokens/s, memory and its evenness, predicted beside measured, and
  /// one verdict line: bound by compute, data, exposed communication.
  void summary();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cleave
