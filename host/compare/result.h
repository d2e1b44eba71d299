// What a comparison has found so far: for the console, the page and the JSON file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/matrix.h"

namespace cleave {

/// metrics.jsonl of one run, by step.
struct RunFigures {
  std::vector<double> step_ms, tokens_per_s, exposed_ms;
  std::vector<double> wire_bytes;  ///< sent by the step, the largest rank's
  std::vector<double> loss;
  std::vector<double> peak_memory_mib, resident_mib;  ///< one entry per rank, the highest
};

/// One run of a row.
struct Repetition {
  int64_t number;  ///< from 1
  double seconds;  ///< from start to end, loading included
  RunFigures figures;
};

enum class RowStatus { waiting, done, refused, skipped, failed };
const char* to_string(RowStatus status);

struct RowResult {
  CompareRow row;
  std::filesystem::path folder;
  std::string command;  ///< of the first repetition
  RowStatus status = RowStatus::waiting;
  std::string reason = {};                   ///< why it is not done; may have several lines
  std::vector<std::string> facts = {};       ///< lines of the run's header, and of netlab
  std::vector<Repetition> repetitions = {};  ///< those that ended well
};

/// Over the repetitions of a row.
struct Spread {
  double median, low, high;
};

/// A row in numbers. Each is the median over the steps that count, then over the repetitions.
struct RowFigures {
  Spread tokens_per_s, step_ms, exposed_ms, wire_bytes;
  Spread loss;                           ///< of the last step
  double peak_memory_mib, resident_mib;  ///< of the fullest rank
  std::optional<double> speed_up;        ///< over one rank; nothing without that run
  std::optional<double> efficiency;      ///< speed-up / ranks
};

struct CompareResult {
  CompareConfig config;
  int64_t steps;
  int64_t tokens_per_step;
  std::string started;                                           ///< UTC
  std::vector<std::pair<std::string, std::string>> machine;      ///< what, value
  std::vector<std::pair<std::string, std::string>> versions;     ///< name, version
  std::vector<std::pair<std::string, std::string>> environment;  ///< what the runs had besides
  std::string dropped_strategies;  ///< of the shared run's file, which no row has
  std::vector<RowResult> rows;     ///< the base first
  bool is_complete = false;        ///< every row has all its repetitions, or a reason
};

/// Nothing when no repetition has ended well.
std::optional<RowFigures> figures_of(const RowResult& row, const CompareResult& result);

/// The rows as one reads them: by group, in each the fastest first, those without figures last.
std::vector<const RowResult*> ranked(const CompareResult& result);

/// One line for each group of rows: the fastest, and which others it can't be told from because
/// their ranges overlap.
std::vector<std::string> verdicts(const CompareResult& result);

}  // namespace cleave
