// Ops that compute nothing: a dry run of the model on tensors without content shows how many bytes
// of activations are alive at any moment.
#pragma once

#include <string>
#include <utility>

#include "cleave/ops.h"
#include "cleave/roles.h"
#include "core/live_bytes.h"
#include "core/recompute.h"

namespace cleave {

/// Keeps for backward what TorchOps keeps (torch_ops.h) and, while an operation runs, what its
/// implementation on the CPU holds besides: the fused kernels for float32, ATen for other dtypes.
/// Left out is the scratch memory of bfloat16 products: at most a few MiB a thread, different on
/// each CPU. Weights are cut as value_placement says; nothing else of a Parameter is looked at.
class ActivationCounter final : public Ops, public UnitObserver {
 public:
  /// `activation_ranks` share the tokens of an activation between regions.
  explicit ActivationCounter(int64_t activation_ranks) : activation_ranks_(activation_ranks) {}

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
  at::Tensor region_in(const at::Tensor& x) override;
  at::Tensor region_out(const at::Tensor& x) override;

  void before_unit(const UnitInfo& unit, int micro_batch, Phase phase) override;
  void after_unit(const UnitInfo& unit, int micro_batch, Phase phase) override;

  /// A tensor that no operation has made.
  void see(const at::Tensor& tensor) { count({tensor}); }
  int64_t live_bytes() { return live_.now(); }
  int64_t peak_bytes() const { return peak_bytes_; }
  /// The unit that ran when the most was alive.
  const std::string& peak_unit() const { return peak_unit_; }

  /// The most since the latest call.
  int64_t take_recent_peak_bytes() { return std::exchange(recent_peak_bytes_, 0); }

 private:
  // What an operation's backward finds and needs.
  struct Backward {
    std::vector<at::Tensor> keeps = {};
    int64_t temporary_bytes = 0;
    MakeAgain make_again = {};  // what it needs and doesn't keep
  };
  struct Kept;
  struct OperationFunction;
  struct DroppedAttention;

  std::vector<at::Tensor> record(const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& outputs, Backward backward);
  at::Tensor rotate(const at::Tensor& x);
  at::Tensor with_tokens(const at::Tensor& x, int64_t tokens);
  // `made` is alive from now on; the operation that made it holds `temporary_bytes` meanwhile.
  void count(const std::vector<at::Tensor>& made, int64_t temporary_bytes = 0);

  int64_t activation_ranks_;
  LiveBytes live_;
  OfferedOutput offered_;
  Recompute recompute_;
  std::string unit_;
  std::string peak_unit_;
  int64_t peak_bytes_ = 0;
  int64_t recent_peak_bytes_ = 0;
};

}  // namespace cleave
