// What a rank will hold, before anything is allocated.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cleave/strategy.h"
#include "core/unit.h"

namespace cleave {

/// Values, masters, gradients and moments, from placements alone.
std::vector<MemoryItem> model_states(const std::vector<Parameter*>& parameters);

/// What filling them needs besides, before the first step.
std::vector<MemoryItem> initial_memory(const std::vector<Parameter*>& parameters);

/// Activations during a step's `actions`, which make `visits`. `units` have their placements,
/// chunks and recompute flags.
std::vector<MemoryItem> activation_memory(const std::vector<std::unique_ptr<Unit>>& units,
                                          const MicroBatchShape& shape,
                                          std::span<const Action> actions,
                                          std::span<const Visit> visits);

/// Tokens and targets of a step. `ignores_tokens`: those that count must be found.
std::vector<MemoryItem> batch_memory(const MicroBatchShape& shape, int64_t num_micro_batches,
                                     bool ignores_tokens);

}  // namespace cleave
