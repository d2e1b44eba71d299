// The arithmetic between matrix products: fused CPU kernels for float32, ATen for everything else
// (CUDA, bfloat16). No autograd here.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "cleave/ops.h"

namespace cleave {

/// y (like x) and 1 / root mean square (n) of the rows of x (n, C).
std::pair<at::Tensor, at::Tensor> rms_norm_forward(const at::Tensor& x, const at::Tensor& weight,
                                                   double eps);
/// dx (n, C) and the weight's gradient (C, float32).
std::pair<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                    const at::Tensor& weight,
                                                    const at::Tensor& scale);

at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up);
/// dgate and dup.
std::pair<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& dy, const at::Tensor& gate,
                                                  const at::Tensor& up);

/// Half-split rotation of x (B, T, heads, D) by its position's phase, or back.
at::Tensor rotate(const at::Tensor& x, const RotaryTable& rotary, bool inverse);

/// Turns logits (n, V) float32 into the gradient of the loss, in place, and adds the loss of
/// targets (n) to `sink.sum`.
void cross_entropy_gradient(at::Tensor& logits, const at::Tensor& targets, const LossSink& sink);

}  // namespace cleave
