// The learning rate as a function of the update's number alone.
#pragma once

#include <cstdint>

#include "config/run_config.h"

namespace cleave {

/// lr of update k (from 0): warm-up lr (k+1)/warmup_steps while k < warmup_steps; then from lr to
/// min_lr over decay_steps - warmup_steps updates (cosine or linear), min_lr after; constant: lr.
double learning_rate(const OptimizerConfig& config, int64_t update);

}  // namespace cleave
