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
/// Says that this run of the unit adds nothing more to the gradient: its exchange may start, and
/// its memory go, at once. Not required: at the end of the unit's backward all are complete.
void complete(Parameter& parameter);
/// Zeroes a gradient that got no contribution this step.
void settle(Parameter& parameter);

}  // namespace cleave
