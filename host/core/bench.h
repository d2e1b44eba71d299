// `host bench`: what the collectives of a backend do on these ranks and links.
#pragma once

#include <ostream>

#include "config/bench_request.h"
#include "process/process.h"

namespace cleave {

/// The verb: plans, measures on this rank or on threads, writes the files that were asked for; a
/// row that fails is kept with its reason. Returns whether every row was measured and right; the
/// same on all ranks. ConfigError when sizes that were asked for don't fit into memory.
bool bench(const BenchRequest& request, const ProcessInfo& process, std::ostream& out);

}  // namespace cleave
