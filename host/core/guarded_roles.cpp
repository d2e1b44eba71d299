#include "core/guarded_roles.h"

namespace cleave {

void GuardedReducer::allocate_gradients(const std::vector<Parameter*>& backward_order) {
  guarded<RuntimeError>(name_, "allocate_gradients", "",
                        [&] { role_.allocate_gradients(backward_order); });
  for (const Parameter* parameter : backward_order)
    if (!parameter->gradient.defined() || parameter->gradient.scalar_type() != at::kFloat ||
        parameter->gradient.numel() != parameter->value.numel())
      throw RuntimeError(message("strategy ", name_, ": allocate_gradients left ", parameter->name,
                                 " without a float32 gradient of its ", parameter->value.numel(),
                                 " elements"));
}

void GuardedReducer::gradient_ready(Parameter& parameter) {
  guarded<RuntimeError>(name_, "gradient_ready", parameter.name,
                        [&] { role_.gradient_ready(parameter); });
}

void GuardedReducer::finish_gradients() {
  guarded<RuntimeError>(name_, "finish_gradients", "", [&] { role_.finish_gradients(); });
}

void GuardedObserver::before_unit(const UnitInfo& unit, int micro_batch, Phase phase) {
  guarded<RuntimeError>(name_, "before_unit", unit.name,
                        [&] { role_.before_unit(unit, micro_batch, phase); });
}

void GuardedObserver::after_unit(const UnitInfo& unit, int micro_batch, Phase phase) {
  guarded<RuntimeError>(name_, "after_unit", unit.name,
                        [&] { role_.after_unit(unit, micro_batch, phase); });
}

void GuardedStepWrapper::update(int64_t step, const std::function<void()>& next) {
  int calls = 0;
  guarded<RuntimeError>(name_, "update", "", [&] {
    role_.update(step, [&] {
      ++calls;
      next();
    });
  });
  if (calls != 1)
    throw RuntimeError(message("strategy ", name_, ": update called the optimizer ", calls,
                               " times in step ", step + 1, "; call next() once"));
}

}  // namespace cleave
