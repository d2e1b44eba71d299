#include "core/lr_schedule.h"

#include <cmath>
#include <numbers>

namespace cleave {

double learning_rate(const OptimizerConfig& config, int64_t update) {
  if (update < config.warmup_steps)
    return config.lr * static_cast<double>(update + 1) / static_cast<double>(config.warmup_steps);
  if (config.schedule == "constant") return config.lr;
  if (update >= config.decay_steps) return config.min_lr;
  const double progress = static_cast<double>(update - config.warmup_steps) /
                          static_cast<double>(config.decay_steps - config.warmup_steps);
  const double share = config.schedule == "linear"
                           ? 1.0 - progress
                           : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return config.min_lr + share * (config.lr - config.min_lr);
}

}  // namespace cleave
