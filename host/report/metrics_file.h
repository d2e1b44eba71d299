// metrics.jsonl: one JSON object per step.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "step_record.h"

namespace cleave {

/// The object for one step, without newline. Floating values have 17 significant digits (they read
/// back to the same bits); infinity and NaN, which JSON does not know, become null.
std::string to_json(const StepRecord& record);

/// Replaces the file of an earlier run, or goes on with it. Every line is handed to the kernel
/// before `write` returns, so a killed run keeps what it reported.
class MetricsFile {
 public:
  /// Lines of steps up to `resumed_step` stay. ConfigError when the file can't be created.
  explicit MetricsFile(const std::filesystem::path& file, int64_t resumed_step = 0);
  /// RuntimeError when the line can't be written (say, the disk is full).
  void write(const StepRecord& record);

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace cleave
