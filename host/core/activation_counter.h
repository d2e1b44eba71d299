// Ops that compute nothing: a dry run of the model on tensors without content shows how many bytes
// of activations are alive at any moment.
#pragma once

#include <functional>
#include <utility>

#include "cleave/ops.h"
#include "cleave/roles.h"
#include "cleave/strategy.h"
#include "core/live_bytes.h"
#include "core/recompute.h"

namespace cleave {

/// Keeps for backward what TorchOps keeps (torch_ops.h) and, while an operation runs, what its
/// implementation on the CPU holds besides: the fused kernels for float32, ATen for other dtypes.
/// Left out is the scratch memory of bfloat16 products: at most a few MiB a thread, different on
/// each CPU. Weights are cut as value_placement says; nothing else of a Parameter is looked at.
class ActivationCounter final : public Ops, public UnitObserver {
 public:
  /// `shape` says how an activation is cut between regions.
  explicit ActivationCounter(const MicroBatchShape& shape) : shape_(shape) {}

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
  /// The most since the latest call.
  int64_t take_recent_peak_bytes() { return std::exchange(recent_peak_bytes_, 0); }

 private:
  // What a weight's gradient waits with where it is made later, from the gradients of the
  // operation's outputs and its input.
  using Waits = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& dy,
                                                      const at::Tensor& x)>;
  // What an operation's backward finds and needs.
  struct Backward {
    std::vector<at::Tensor> keeps = {};  // its input first, where that is kept
    int64_t temporary_bytes = 0;
    MakeAgain make_again = {};  // its input, where it needs that and doesn't keep it
    const Parameter* weight = nullptr;
    int64_t weight_temporary_bytes = 0;  // for the weight's gradient
    Waits waits = {};
  };
  struct Kept;
  struct OperationFunction;
  struct DroppedAttention;

  std::vector<at::Tensor> record(const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& outputs, Backward backward);
  void defer_weight_gradient(const Backward& backward, const std::vector<at::Tensor>& dy,
                             const at::Tensor& x);
  at::Tensor rotate(const at::Tensor& x);
  at::Tensor with_shape(const at::Tensor& x, const std::vector<int64_t>& shape);
  // `made` is alive from now on; the operation that made it holds `temporary_bytes` meanwhile.
  void count(const std::vector<at::Tensor>& made, int64_t temporary_bytes = 0);

  MicroBatchShape shape_;
  LiveBytes live_;
  OfferedOutput offered_;
  Recompute recompute_;
  int64_t recent_peak_bytes_ = 0;
};

}  // namespace cleave
