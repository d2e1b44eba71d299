// The update of the weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "cleave/parameter.h"
#include "config/run_config.h"

namespace cleave {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Updates every `master` from `reduced_gradient` x `gradient_coefficient` (the clip
  /// coefficient).
  virtual void step(double lr, double gradient_coefficient) = 0;
};

/// AdamW (Loshchilov and Hutter 2019) by ATen's fused kernel; decay on matrices only. State: two
/// float32 moments beside each master weight of this rank. Parameters need `master` and
/// `reduced_gradient`.
std::unique_ptr<Optimizer> make_adamw(const std::vector<Parameter*>& parameters,
                                      const OptimizerConfig& config);

}  // namespace cleave
