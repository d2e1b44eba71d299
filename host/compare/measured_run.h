// What a run left behind: its metrics.jsonl and what it printed.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "compare/child_runner.h"
#include "compare/result.h"

namespace cleave {

/// Whole lines only; empty figures when there is no such file.
RunFigures read_figures(const std::filesystem::path& metrics_file);

/// Counts the steps in the metrics.jsonl of a run that is under way, and reads each byte once.
class StepCounter {
 public:
  explicit StepCounter(std::filesystem::path metrics_file) : file_(std::move(metrics_file)) {}
  /// Whole lines so far; 0 while there is no such file.
  int64_t count();

 private:
  std::filesystem::path file_;
  int64_t read_bytes_ = 0;
  int64_t lines_ = 0;
};

/// The lines that say what ran: model, mesh, batch, dtypes, communication, threads, the link.
std::vector<std::string> read_facts(const std::filesystem::path& log);

struct Outcome {
  RowStatus status;    ///< done, refused, skipped or failed
  std::string reason;  ///< empty when done
};

/// Judges a run that has `wanted` steps. Exit status 2 is a refusal, 77 is netlab's for what this
/// machine can't do.
Outcome judge(const ProgramEnd& end, const RunFigures& figures, int64_t wanted,
              const std::filesystem::path& log, bool is_netlab);

}  // namespace cleave
