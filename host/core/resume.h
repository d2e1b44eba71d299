// From which checkpoint a run goes on.
#pragma once

#include <memory>
#include <ostream>

#include "checkpoint/checkpoint_reader.h"
#include "core/trainer.h"

namespace cleave {

/// Collective. What checkpoint.resume asks for, opened, verified by all ranks together and checked
/// to be this run's; nothing: from the beginning. `console` gets rank 0's lines: what was chosen,
/// what was passed over and why. ConfigError on all ranks when a named one won't do.
std::unique_ptr<CheckpointReader> find_resume_point(const TrainerContext& context,
                                                    std::ostream& console);

}  // namespace cleave
