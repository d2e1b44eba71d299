// The rows of a comparison: every combination of what its file names.
#pragma once

#include <string>
#include <vector>

#include "config/compare_config.h"
#include "config/run_config.h"

namespace cleave {

struct CompareRow {
  std::string backend, strategy;
  std::string transform;  ///< "none" without
  CompareLink link;       ///< without a name: the file has no links
  int64_t ranks = 1;
  bool is_base = false;                ///< one rank, against which the others are measured
  std::vector<std::string> overrides;  ///< of the shared run
};

/// The base first, then all ranks above 1 of the first link, and so on. `run`: the shared run.
std::vector<CompareRow> make_rows(const CompareConfig& config, const RunConfig& run);

/// "2 ranks, mpi, fsdp", with the transform and the link where there are some.
std::string label(const CompareRow& row);
/// "mpi, fsdp": the same within a group.
std::string short_label(const CompareRow& row);
/// What rows must have in common to be ranked: "2 ranks", "2 ranks, 1 Gbit/s".
std::string group_label(const CompareRow& row);

/// The run of all rows: `config.run` with what the file replaces; without the strategies of that
/// file when the rows bring theirs. ConfigError: it saves or exports (each row would), or has no
/// step that counts.
RunConfig load_shared_run(const CompareConfig& config);

}  // namespace cleave
