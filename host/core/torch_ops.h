// Ops over ATen on one rank: the innermost implementation, which strategies wrap.
#pragma once

#include "cleave/ops.h"

namespace cleave {

class TorchOps final : public Ops {
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
};

}  // namespace cleave
