// `host bench`: what the collectives of a backend do on these ranks and links.
#pragma once

#include <functional>
#include <ostream>

#include "core/bench_plan.h"
#include "core/bench_row.h"

namespace cleave {

/// Measures every op of the plan at every size, on this rank. Collective; rank 0 prints each row
/// when it is there. A row that fails is kept with its reason and the next one is measured.
/// ConfigError when sizes that were asked for don't fit into memory.
BenchResult bench_as_rank(const BenchPlan& plan, const ProcessInfo& process,
                          const Bootstrap& bootstrap, const std::function<void()>& on_failure,
                          std::ostream& out);

/// The verb: plans, measures on this rank or on threads, writes the files that were asked for.
/// Returns whether every row was measured and right; the same on all ranks.
bool bench(const BenchRequest& request, const ProcessInfo& process, std::ostream& out);

}  // namespace cleave
