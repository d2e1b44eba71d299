// What a run looked like as a whole, from its step records.
#pragma once

#include <string>
#include <vector>

#include "step_record.h"

namespace cleave {

/// Value below which `fraction` of the values lie, interpolated; `values` not empty.
double percentile(std::vector<double> values, double fraction);

class RunSummary {
 public:
  explicit RunSummary(const RunFacts& facts) : facts_(facts) {}

  void add(const StepRecord& record);
  /// Mean step time so far, the first step (warm-up) left out once there are others; 0 at the
  /// start.
  double mean_step_ms() const;
  /// Aligned lines, each ended by a newline.
  std::string to_string() const;

 private:
  /// Sums over the counted steps.
  struct Sums {
    int64_t steps = 0;
    double step_ms = 0;
    double exposed_ms = 0;
    double data_ms = 0;
    double bubble_ms = 0;
    double wire_bytes = 0;
  };
  std::string step_time_lines() const;
  std::string memory_lines() const;
  std::string memory_table() const;
  std::string wire_line() const;
  std::string stall_line() const;
  std::string verdict_line() const;

  RunFacts facts_;
  Sums sums_;
  double first_step_ms_ = 0;
  std::vector<double> step_ms_;          ///< counted steps
  std::vector<double> stall_ms_;         ///< by checkpoints
  std::vector<double> peak_memory_mib_;  ///< highest of each rank
  std::vector<CategoryMemory> memory_mib_;
  std::vector<double> resident_mib_;  ///< highest of each rank
  bool first_step_only_ = false;
};

}  // namespace cleave
