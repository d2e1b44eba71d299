// For who implements operations (ops.h): adding to Parameter::gradient. The first contribution of a
// step overwrites, so nothing is zeroed. While Parameter::deferred is set, contributions wait there
// and keep their tensors alive.
#pragma once

#include <ATen/core/Tensor.h>

#include "cleave/parameter.h"

namespace cleave {

/// gradient (+)= dy^T x. dy (n, out), x (n, in), both in the parameter's dtype; the sum over
/// micro-batches is float32.
void add_product(Parameter& weight, const at::Tensor& dy, const at::Tensor& x);
/// gradient (+)= contribution (same shape, any dtype).
void add(Parameter& parameter, const at::Tensor& contribution);
/// gradient row tokens[i] += dy[i]. tokens (n), dy (n, C).
void add_rows(Parameter& weight, const at::Tensor& tokens, const at::Tensor& dy);
/// Not required, but lets a gradient's exchange start before its unit's backward ends: an operation
/// begins a use in its forward, while autograd records, and ends it when its backward has added all
/// that it had. The gradient is complete when the last open use ends, so begin before others end.
void begin_use(Parameter& parameter);
void end_use(Parameter& parameter);
/// Zeroes a gradient that got no contribution this step.
void settle(Parameter& parameter);

}  // namespace cleave
