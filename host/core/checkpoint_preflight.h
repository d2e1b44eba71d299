// What must hold before a run that saves checkpoints begins.
#pragma once

#include <memory>

#include "checkpoint/checkpoint_directory.h"
#include "core/trainer.h"

namespace cleave {

/// Collective. Rank 0 gets the directory, locked and mended; the others nullptr. ConfigError on all
/// ranks when it can't be written, lacks the space for one checkpoint, or isn't the same folder on
/// all ranks.
std::unique_ptr<CheckpointDirectory> open_checkpoint_directory(const TrainerContext& context);

}  // namespace cleave
