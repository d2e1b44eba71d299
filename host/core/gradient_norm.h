// The norm over all logical parameters, each counted once.
#pragma once

#include <vector>

#include "cleave/parameter.h"

namespace cleave {

/// Sum of squares of the reduced gradients that `rank` owns (placement.h), in float64 with a fixed
/// summation order. The sum over all ranks is the square of the global norm.
double gradient_square_sum(const std::vector<Parameter*>& parameters, const Mesh& mesh, int rank);

/// min(1, clip_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; 1 when clip_norm is 0.
double clip_coefficient(double norm, double clip_norm);

}  // namespace cleave
