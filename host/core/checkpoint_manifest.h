// What of a run stands in its checkpoints' manifests, and which runs may go on from one.
#pragma once

#include "checkpoint/manifest.h"
#include "core/trainer.h"

namespace cleave {

class ExtraStates;

/// Before the first step; tensors with names and shapes, no files.
Manifest make_manifest(const TrainerContext& context, const ExtraStates& extra);
/// Moves it to after `step` updates.
void set_step(Manifest& manifest, int64_t step);

/// ConfigError that begins with `where` when a run with this context can't go on from it: another
/// model, other data, another batch. Layout, strategies, dtype and hyperparameters may differ.
void check_resumable(const std::string& where, const Manifest& manifest,
                     const TrainerContext& context);

/// Keys of [train] and [optimizer] that differ: "optimizer.lr 0.001 -> 0.002".
std::vector<std::string> changed_keys(const Manifest& manifest, const RunConfig& config);

}  // namespace cleave
