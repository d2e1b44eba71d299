// What a run left behind: its metrics.jsonl and what it printed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compare/child_runner.h"
#include "compare/result.h"

namespace cleave {

/// Whole lines only; empty figures when there is no such file.
RunFigures read_figures(const std::filesystem::path& metrics_file);

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
