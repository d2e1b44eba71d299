#include "core/optimizer.h"

#include <ATen/ATen.h>

#include "core/memory_account.h"

namespace cleave {

namespace {

constexpr char kExpAvg[] = "exp_avg", kExpAvgSq[] = "exp_avg_sq";

// The fused kernel takes one decay for all its tensors, hence two groups.
struct Group {
  double weight_decay;
  std::vector<at::Tensor> masters;
  std::vector<at::Tensor> gradients;  // float32
  std::vector<at::Tensor> exp_avgs;
  std::vector<at::Tensor> exp_avg_sqs;
  std::vector<at::Tensor> steps;  // the same tensor for every parameter
};

class AdamW final : public Optimizer {
 public:
  AdamW(const std::vector<Parameter*>& parameters, const OptimizerConfig& config)
      : config_(config),
        groups_{{config.weight_decay, {}, {}, {}, {}, {}}, {0.0, {}, {}, {}, {}, {}}} {
    if (parameters.empty()) return;
    moments_.resize(parameters.back()->index + 1);
    const auto f32 = at::TensorOptions().dtype(at::kFloat).device(parameters[0]->master.device());
    updates_ = at::zeros({}, f32);
    gradient_divisor_ = at::ones({}, f32);
    for (Parameter* parameter : parameters)
      add(groups_[parameter->has_weight_decay() ? 0 : 1], *parameter);
  }

  void step(double lr, double gradient_coefficient) override {
    updates_.add_(1);
    gradient_divisor_.fill_(1.0 / gradient_coefficient);
    const auto divisor =
        gradient_coefficient == 1.0 ? std::nullopt : std::optional<at::Tensor>(gradient_divisor_);
    for (Group& group : groups_) {
      if (group.masters.empty()) continue;
      at::_fused_adamw_(group.masters, group.gradients, group.exp_avgs, group.exp_avg_sqs,
                        /*max_exp_avg_sqs=*/{}, group.steps, lr, config_.beta1, config_.beta2,
                        group.weight_decay, config_.epsilon, /*amsgrad=*/false,
                        /*maximize=*/false, /*grad_scale=*/divisor);
    }
  }

  std::vector<OptimizerState> states(const Parameter& parameter) const override {
    const auto index = static_cast<size_t>(parameter.index);
    const Moments moments = index < moments_.size() ? moments_[index] : Moments{};
    if (!moments.exp_avg.defined()) return {{kExpAvg, at::empty({0})}, {kExpAvgSq, at::empty({0})}};
    return {{kExpAvg, moments.exp_avg}, {kExpAvgSq, moments.exp_avg_sq}};
  }

  void set_num_updates(int64_t count) override {
    if (updates_.defined()) updates_.fill_(count);
  }

 private:
  void add(Group& group, Parameter& parameter) {
    if (parameter.master.numel() == 0) return;  // another rank's
    group.gradients.push_back(parameter.reduced_gradient);
    group.masters.push_back(parameter.master);
    MemoryScope scope(MemoryCategory::optimizer);
    group.exp_avgs.push_back(at::zeros_like(group.masters.back()));
    group.exp_avg_sqs.push_back(at::zeros_like(group.masters.back()));
    moments_[parameter.index] = {group.exp_avgs.back(), group.exp_avg_sqs.back()};
    group.steps.push_back(updates_);
  }

  struct Moments {
    at::Tensor exp_avg;
    at::Tensor exp_avg_sq;
  };

  OptimizerConfig config_;
  std::vector<Moments> moments_;  // by Parameter::index; undefined where `master` is empty
  at::Tensor updates_;            // float32 scalar: updates done
  at::Tensor gradient_divisor_;   // float32 scalar: the fused kernel divides by it
  Group groups_[2];
};

}  // namespace

std::vector<std::string> adamw_state_names() {
  return {kExpAvg, kExpAvgSq};
}

std::unique_ptr<Optimizer> make_adamw(const std::vector<Parameter*>& parameters,
                                      const OptimizerConfig& config) {
  return std::make_unique<AdamW>(parameters, config);
}

}  // namespace cleave
