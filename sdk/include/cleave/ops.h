// The seam below the unit: every use of a parameter goes through these calls, so a strategy can
// replace them (tensor parallel), gather behind the handle (sharding) or defer weight gradients.
//
// Shapes: B sequences of a micro-batch, T tokens, C hidden, H heads, K key/value heads, D head
// size, F intermediate, V vocabulary. Sharded extents keep their letter with a divisor in comments
// (C/N).
//
// Gradients of parameters are no part of the autograd graph: the backward of each call adds them to
// Parameter::gradient (float32). What flows through autograd is activations alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "cleave/parameter.h"

namespace cleave {

/// Weight (out, in) and optional bias (out) of one projection.
struct Projection {
  Parameter* weight;
  Parameter* bias;  ///< nullptr: none
};

/// Where the loss of a micro-batch goes.
struct LossSink {
  at::Tensor sum;             ///< float64 scalar: gets sum of token losses over counted targets
  at::Tensor gradient_scale;  ///< float64 scalar: 1 / counted targets of the global batch
  int64_t ignore_token = -1;  ///< targets equal to it do not count; -1: all count
};

/// cos and sin of position x frequency, (T, D/2) each, in float32.
struct RotaryTable {
  at::Tensor cos;
  at::Tensor sin;
};

class Ops {
 public:
  virtual ~Ops() = default;

  /// (B, T) -> (B, T, C). `path` is a tensor that requires gradients: tokens can't, and without it
  /// autograd would not record the call.
  virtual at::Tensor embedding(const at::Tensor& tokens, Parameter& weight,
                               const at::Tensor& path) = 0;
  /// y = x / sqrt(mean(x^2) + eps) * weight over the last dim (Zhang and Sennrich 2019).
  virtual at::Tensor rms_norm(const at::Tensor& x, Parameter& weight, double eps) = 0;
  /// y_i = x W_i^T + b_i for projections of the same input (q, k, v; gate, up). `projections` must
  /// live until backward.
  virtual std::vector<at::Tensor> linear(const at::Tensor& x,
                                         const std::vector<Projection>& projections) = 0;
  /// Rotates q (B, T, H, D) and k (B, T, K, D) by position (Su et al. 2021, half-split layout),
  /// then causal grouped-query attention; returns (B, T, H, D).
  virtual at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const RotaryTable& rotary) = 0;
  /// silu(gate) * up (Shazeer 2020).
  virtual at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) = 0;
  /// Logits = hidden W^T and their cross-entropy, in chunks of tokens, so full logits never exist.
  /// With gradients on, the chunk's loss is added to `sink.sum` in backward, where loss and
  /// gradient come from the same logits; without, at once. Returns a scalar whose gradient starts
  /// backward.
  virtual at::Tensor cross_entropy(const at::Tensor& hidden, Parameter& weight,
                                   const at::Tensor& targets, const LossSink& sink) = 0;

  /// Begin and end of a region whose inner activations may be split over ranks (Megatron-LM's f and
  /// g, Shoeybi et al. 2019). Identity on one rank.
  virtual at::Tensor region_in(const at::Tensor& x) = 0;
  virtual at::Tensor region_out(const at::Tensor& x) = 0;
};

}  // namespace cleave
