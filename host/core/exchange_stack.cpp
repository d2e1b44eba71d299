#include "core/exchange_stack.h"

namespace cleave {

void ExchangeStack::push(const std::string& strategy, GradientTransformer& transformer) {
  GradientExchange& exchange = guarded<RuntimeError>(
      strategy, "transform", "",
      [&]() -> GradientExchange& { return transformer.transform(*outermost_); });
  around_.push_back(std::make_unique<GuardedExchange>(strategy, exchange));
  outermost_ = around_.back().get();
}

}  // namespace cleave
