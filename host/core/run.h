// What the program does with a config: train, check.
#pragma once

#include <ostream>

#include "core/rank.h"

namespace cleave {

/// Trains; `out` gets rank 0's header, progress and summary.
void train(const TrainerContext& context, const SolvedPlan& plan, std::ostream& out);

/// Solves and prints the plan of a run on `world_size` ranks (0: what [mesh] says); allocates
/// nothing. `schedule_picture`: see print_pipeline.
void check(const RunConfig& config, int world_size, const std::filesystem::path& schedule_picture,
           std::ostream& out);

}  // namespace cleave
