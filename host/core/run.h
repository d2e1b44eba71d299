// What the program does with a config: train, check.
#pragma once

#include <ostream>

#include "core/rank.h"
#include "process/stop_signals.h"

namespace cleave {

/// Trains; `out` gets rank 0's header, progress and summary. Goes on from a checkpoint and saves
/// some where the config says so. `signals`: ask to save and leave; may be nullptr.
void train(const TrainerContext& context, const SolvedPlan& plan, StopSignals* signals,
           std::ostream& out);

/// Solves and prints the plan of a run on `world_size` ranks (0: what [mesh] says); allocates
/// nothing. `schedule_picture`: see print_pipeline.
void check(const RunConfig& config, int world_size, const std::filesystem::path& schedule_picture,
           std::ostream& out);

}  // namespace cleave
