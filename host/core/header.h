// What is printed before the first step: who runs, what is split, predicted memory and bytes.
#pragma once

#include <ostream>

#include "core/communicators.h"
#include "core/model.h"
#include "core/planned_run.h"
#include "core/strategies.h"
#include "data/dataset.h"

namespace cleave {

/// The plan alone: model, mesh, batch equation, dtypes, predicted memory and bytes (`host check`,
/// and the first part of a run's header). Nothing has been allocated when this is printed.
void print_plan(std::ostream& out, const PlannedRun& run);

/// What only a run knows: backend and its path, threads, data.
void print_run(std::ostream& out, const RunConfig& config, const Dataset& dataset,
               Communicators& communicators);

}  // namespace cleave
