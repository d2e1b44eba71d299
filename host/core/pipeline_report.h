// Who holds what in a pipeline and in which order it works, for `host check`; how even it was, for
// the end of a run.
#pragma once

#include <filesystem>
#include <ostream>

#include "core/planned_run.h"

namespace cleave {

/// A line a stage (units, parameters, predicted memory and bytes sent), then the schedule with its
/// bubble; nothing where there is no pipeline. `picture`: an SVG of the schedule goes there; empty:
/// none. ConfigError when it can't be written, or there is none to draw.
void print_pipeline(std::ostream& out, const PlannedRun& run, const std::filesystem::path& picture);

/// Time of each stage's units, their imbalance, and the split that would balance them. `unit_ms`: a
/// step's, by unit index.
void print_balance(std::ostream& out, const PlannedRun& run, const std::vector<double>& unit_ms);

}  // namespace cleave
