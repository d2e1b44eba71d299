// Ops over ATen on one rank: the innermost implementation, which strategies wrap.
#pragma once

#include "cleave/ops.h"
#include "cleave/roles.h"
#include "core/recompute.h"

namespace cleave {

/// Kept for backward, per token in elements of the compute dtype (float32 where it says so); memory
/// that two operations keep counts once. [norm]: not with Recompute::norm, and so on.
///
///   rms_norm       its input x (C) and 1 float32
///   linear         its input, unless that is the output of rms_norm [norm], attention [attention]
///                  or swiglu [mlp]
///   attention      rotated q (H D) and k (K D), v (K D); y (H D) and H float32 [attention]
///   swiglu         gate and up (2 F)
///   embedding      the token; cross_entropy: its input (C) and the target
///
///   a decoder layer: 4 C + 2 H D + 2 K D + 3 F, H + 2 float32
///     norm 2 C less; attention H D less, and H float32; mlp F less; unit: C left, its input
///
/// Outputs of rms_norm, attention and swiglu that are not kept are made again in the backward of
/// the linear that used them. As a UnitObserver it hears which unit runs, and what that recomputes.
class TorchOps final : public Ops, public UnitObserver {
 public:
  at::Tensor embedding(const at::Tensor& tokens, Parameter& weight,
                       const at::Tensor& path) override;
  at::Tensor rms_norm(const at::Tensor& x, Parameter& weight, double eps) override;
  std::vector<at::Tensor> linear(const at::Tensor& x,
                                 const std::vector<Projection>& projections) override;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const RotaryTable& rotary) override;
  at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) override;
  at::Tensor cross_entropy(const at::Tensor& hidden, Parameter& weight, const at::Tensor& targets,
                           const LossSink& sink) override;
  at::Tensor region_in(const at::Tensor& x) override { return x; }
  at::Tensor region_out(const at::Tensor& x) override { return x; }

  void before_unit(const UnitInfo& unit, int, Phase) override { recompute_ = unit.recompute; }
  void after_unit(const UnitInfo&, int, Phase) override {
    recompute_ = {};
    offered_.withdraw();
  }

 private:
  Recompute recompute_;
  OfferedOutput offered_;
};

}  // namespace cleave
