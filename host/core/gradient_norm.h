// The norm over all logical parameters, each counted once.
#pragma once

#include <vector>

#include "cleave/parameter.h"

namespace cleave {

/// Sum of squares of the gradients' elements on this rank, in float64 with a fixed summation order.
/// Every gradient here is whole on every rank, so the sum is the global one.
double gradient_square_sum(const std::vector<Parameter*>& parameters);

/// min(1, clip_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; 1 when clip_norm is 0.
double clip_coefficient(double norm, double clip_norm);

}  // namespace cleave
