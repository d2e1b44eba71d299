// One rank's run from plan to summary, and the ways to start ranks.
#pragma once

#include <functional>
#include <ostream>

#include "config/run_config.h"
#include "process/process.h"

namespace cleave {

/// Trains as rank `process.rank`. `out` gets rank 0's header, progress and summary.
/// What needs no other rank (plugins, plan, data files) is checked before any communication.
/// `on_failure` hears of an exception before the other ranks are aborted, whose own failures follow
/// from it; then it is thrown on.
void run_rank(const RunConfig& config, const ProcessInfo& process, const Bootstrap& bootstrap,
              std::ostream& out, const std::function<void()>& on_failure);

/// All ranks as threads of this process (backend local): as many as [mesh] says. Throws the error
/// of the rank that failed first; the others are aborted.
void run_threads(const RunConfig& config, std::ostream& out);

/// Solves and prints the plan of a run on `world_size` ranks (0: what [mesh] says); allocates
/// nothing.
void check(const RunConfig& config, int world_size, std::ostream& out);

}  // namespace cleave
