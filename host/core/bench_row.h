// What `host bench` found out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/link_fit.h"

namespace cleave {

/// One op at one size. Times are microseconds of the slowest rank.
struct BenchRow {
  std::string op;
  std::string dtype;
  int64_t asked_bytes = 0;
  int64_t bytes = 0;  ///< of the larger buffer; `asked_bytes` rounded up to what the op can do
  int ranks = 0;
  int repetitions = 0;  ///< timed samples
  int calls = 0;        ///< operations in a sample, which counts their mean
  double median_us = 0;
  double p25_us = 0;
  double p75_us = 0;
  double algbw_gb_s = 0;  ///< bytes / median
  double busbw_gb_s = 0;  ///< algbw x wire_factor (comm.h)
  std::string algorithm;
  int64_t wrong = 0;      ///< elements, over all ranks, warm-up and samples
  double wire_bytes = 0;  ///< sent for one operation by all ranks, by wire_factor
  /// Of one operation, all nodes, without headers, by its algorithm's formula; negative: not known.
  double network_formula_bytes = -1;
  double network_bytes = 0;  ///< sent for one operation by all nodes, by their counters
  std::string failure;       ///< not empty: the rest is not there
};

struct BenchResult {
  std::string backend;
  std::string path;  ///< Comm::describe
  std::string dtype;
  int ranks = 0;
  int nodes = 0;
  std::vector<std::string>
      interfaces;  ///< whose counters `network_bytes` adds up, of rank 0's node
  std::vector<BenchRow> rows;
  std::vector<std::string> left_out;  ///< why sizes were not measured
};

/// Per op in the order of its rows: the fit over all of its rows; ops that have none are left out.
std::vector<std::pair<std::string, LinkFit>> bench_fits(const BenchResult& result);

}  // namespace cleave
