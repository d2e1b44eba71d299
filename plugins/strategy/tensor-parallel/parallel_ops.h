// The model's operations when its matrices are cut over the ranks of one communicator. Products of
// cut matrices are the ordinary ones on smaller sizes; what differs is the borders of the regions.
#pragma once

#include <map>

#include "cleave/comm.h"
#include "cleave/ops.h"
#include "cleave/strategy.h"

namespace cleave {

/// N ranks. Between regions an activation is whole on every rank, (B, T, C), or, sequence parallel,
/// a block of its B T rows, (1, B T/N, C) (Korthikanti et al. 2022, arXiv:2205.05198). Which rows
/// of which sequence those are matters to no operation outside the regions.
class ParallelOps final : public Ops {
 public:
  /// `shape`: of a micro-batch. `units`: of the model; weight gradients of the products at the
  /// beginning of their regions are computed while the sum of input gradients is on its way.
  ParallelOps(Ops& next, Comm& comm, const MicroBatchShape& shape, bool sequence_parallel,
              const std::vector<UnitInfo>& units);
  ~ParallelOps() override;

  at::Tensor embedding(const at::Tensor& tokens, Parameter& weight,
                       const at::Tensor& path) override;
  at::Tensor rms_norm(const at::Tensor& x, Parameter& weight, double eps) override {
    return next_.rms_norm(x, weight, eps);
  }
  std::vector<at::Tensor> linear(const at::Tensor& x,
                                 const std::vector<Projection>& projections) override;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const RotaryTable& rotary) override {
    return next_.attention(q, k, v, rotary);
  }
  at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) override {
    return next_.swiglu(gate, up);
  }
  at::Tensor cross_entropy(const at::Tensor& hidden, Parameter& weight, const at::Tensor& targets,
                           const LossSink& sink) override;
  at::Tensor region_in(const at::Tensor& x) override;
  at::Tensor region_out(const at::Tensor& x) override;

 private:
  Ops& next_;
  Comm& comm_;
  MicroBatchShape shape_;
  bool sequence_parallel_;
  std::vector<Parameter*> overlapped_;
  DeferredGradients waiting_;  // of overlapped_, in the region whose backward is running
  std::map<const std::vector<Projection>*, std::vector<Projection>> without_bias_;
};

}  // namespace cleave
