// Head and loss when each rank holds some rows of the vocabulary: logits are never gathered.
#pragma once

#include "cleave/comm.h"
#include "cleave/ops.h"

namespace cleave {

/// As Ops::cross_entropy: hidden (B, T, C) whole on every rank, weight (V/N, C); `sink.sum` gets
/// the same loss on every rank. Per token two numbers are summed and one is maximised over the
/// ranks; the gradient of `hidden` is this rank's term of the sum.
at::Tensor vocabulary_loss(const at::Tensor& hidden, Parameter& weight, const at::Tensor& targets,
                           const LossSink& sink, Comm& comm);

}  // namespace cleave
