// A comparison's result without any run.
#pragma once

#include "compare/result.h"

namespace cleave::test {

/// Four steps; the first, which does not count, is far off.
inline Repetition repetition(int64_t number, double tokens_per_s, double loss = 4) {
  const double ms = 1e6 / tokens_per_s;
  RunFigures run;
  run.tokens_per_s = {1, tokens_per_s - 1, tokens_per_s, tokens_per_s + 1};
  run.step_ms = {9e9, ms, ms, ms};
  run.exposed_ms = {9e9, ms / 4, ms / 4, ms / 4};
  run.wire_bytes = {0, 1048576, 1048576, 1048576};
  run.loss = {5, 5, 5, loss};
  run.peak_memory_mib = {10, 20};
  run.resident_mib = {100, 90};
  return {number, 2.5, run};
}

inline RowResult row(const std::string& backend, int64_t ranks,
                     const std::vector<double>& tokens_per_s) {
  RowResult result;
  result.row = {backend, "ddp", "none", {}, ranks, ranks == 1, {}};
  result.command = "host";
  for (const double value : tokens_per_s)
    result.repetitions.push_back(
        repetition(static_cast<int64_t>(result.repetitions.size()) + 1, value));
  if (!tokens_per_s.empty()) result.status = RowStatus::done;
  return result;
}

inline CompareResult result_of(std::vector<RowResult> rows) {
  CompareResult result{};
  result.config.skipped_steps = 1;
  result.config.repetitions = 3;
  result.steps = 4;
  result.rows = std::move(rows);
  return result;
}

}  // namespace cleave::test
