// What the reducer exchanges gradients through: the exact exchange, and around it those of the
// strategies that transform gradients.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/guarded_roles.h"

namespace cleave {

class ExchangeStack final : public GradientExchange {
 public:
  /// Puts the strategy's exchange around what there is; before the first bucket.
  void push(const std::string& strategy, GradientTransformer& transformer);

  int add_bucket(const GradientBucket& bucket, Comm& comm) override {
    return outermost_->add_bucket(bucket, comm);
  }
  void start(int bucket, std::span<const at::Tensor> outputs,
             std::span<const at::Tensor> inputs) override {
    outermost_->start(bucket, outputs, inputs);
  }
  void finish(int bucket) override { outermost_->finish(bucket); }

 private:
  ExactExchange exact_;
  std::vector<std::unique_ptr<GuardedExchange>> around_;
  GradientExchange* outermost_ = &exact_;
};

}  // namespace cleave
