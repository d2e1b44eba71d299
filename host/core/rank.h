// One rank's life around whatever it is asked to do: planned and checked alone, then with the other
// ranks, then taken down in order. And N ranks as threads of one process.
#pragma once

#include <functional>

#include "core/trainer.h"
#include "process/process.h"

namespace cleave {

using RankBody = std::function<void(const TrainerContext&, const SolvedPlan&)>;

/// Runs `body` as rank `process.rank`. What needs no other rank (plugins, plan, data files) is
/// checked before any communication; then the ranks compare what they were told and the tokens are
/// checked. `on_failure` hears of an exception before the other ranks are aborted, whose own
/// failures follow from it; then it is thrown on.
void run_as_rank(const RunConfig& config, const ProcessInfo& process, const Bootstrap& bootstrap,
                 const std::function<void()>& on_failure, const RankBody& body);

/// Calls `rank(process, bootstrap, on_failure)` on `world_size` threads. Throws the error of the
/// rank that failed first.
void run_as_threads(int world_size, const std::function<void(const ProcessInfo&, const Bootstrap&,
                                                             const std::function<void()>&)>& rank);

}  // namespace cleave
