// The update of the weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "cleave/parameter.h"
#include "config/run_config.h"

namespace cleave {

/// One of the tensors that the optimizer keeps for a parameter: float32, shaped as `master`.
struct OptimizerState {
  const char* name;  ///< "exp_avg", as torch.optim spells it
  at::Tensor tensor;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Updates every `master` from `reduced_gradient` x `gradient_coefficient` (the clip
  /// coefficient).
  virtual void step(double lr, double gradient_coefficient) = 0;

  /// Of every parameter, in the same order; the tensors are empty where `master` is. Reading them
  /// saves, writing them loads.
  virtual std::vector<OptimizerState> states(const Parameter& parameter) const = 0;
  /// Updates done: the bias correction counts them. To be told when states are loaded.
  virtual void set_num_updates(int64_t count) = 0;
};

/// AdamW (Loshchilov and Hutter 2019) by ATen's fused kernel; decay on matrices only. State: two
/// float32 moments beside each master weight of this rank. Parameters need `master` and
/// `reduced_gradient`.
std::unique_ptr<Optimizer> make_adamw(const std::vector<Parameter*>& parameters,
                                      const OptimizerConfig& config);
/// The names of its states, in their order.
std::vector<std::string> adamw_state_names();

}  // namespace cleave
