// Head and loss in chunks of tokens: the logits of one chunk are all that ever exists.
#pragma once

#include <ATen/core/Tensor.h>

#include "cleave/ops.h"

namespace cleave {

/// Tokens of a chunk.
int64_t cross_entropy_chunk_rows(int64_t vocab_size);

/// Adds the loss of hidden (n, C) against targets (n) to `sink.sum` and the weight's gradient to
/// `weight` (V, C); returns the gradient of `hidden`.
at::Tensor cross_entropy_backward(const at::Tensor& hidden, Parameter& weight,
                                  const at::Tensor& targets, const LossSink& sink);
/// The loss alone.
void cross_entropy_forward(const at::Tensor& hidden, const Parameter& weight,
                           const at::Tensor& targets, const LossSink& sink);

}  // namespace cleave
