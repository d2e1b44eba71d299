#include "core/guarded_roles.h"

#include "core/memory_account.h"

namespace cleave {

namespace {

void check_elements(const std::string& name, const char* hook, const Parameter& parameter,
                    const char* what, const at::Tensor& tensor, int64_t elements) {
  if (!tensor.defined() || tensor.scalar_type() != at::kFloat || tensor.numel() != elements)
    throw RuntimeError(message("strategy ", name, ": ", hook, " left ", parameter.name,
                               " without a float32 ", what, " of its ", elements, " elements"));
}

}  // namespace

void GuardedReducer::allocate_gradients(const std::vector<Parameter*>& backward_order) {
  MemoryScope scope(MemoryCategory::gradients);
  guarded<RuntimeError>(name_, "allocate_gradients", "",
                        [&] { role_.allocate_gradients(backward_order); });
  for (Parameter* parameter : backward_order) {
    if (!parameter->reduced_gradient.defined()) parameter->reduced_gradient = parameter->gradient;
    check_elements(name_, "allocate_gradients", *parameter, "gradient", parameter->reduced_gradient,
                   parameter->gradient_placement.num_elements());
  }
}

void GuardedReducer::provide_gradients(const UnitInfo& unit) {
  MemoryScope scope(MemoryCategory::gradients);
  guarded<RuntimeError>(name_, "provide_gradients", unit.name,
                        [&] { role_.provide_gradients(unit); });
}

void GuardedReducer::gradient_ready(Parameter& parameter, bool is_last) {
  MemoryScope scope(MemoryCategory::gradients);
  guarded<RuntimeError>(name_, "gradient_ready", parameter.name,
                        [&] { role_.gradient_ready(parameter, is_last); });
}

void GuardedReducer::finish_gradients() {
  MemoryScope scope(MemoryCategory::gradients);
  guarded<RuntimeError>(name_, "finish_gradients", "", [&] { role_.finish_gradients(); });
}

void GuardedSharder::unshard(const Visit& visit, std::span<const Visit> upcoming) {
  MemoryScope scope(MemoryCategory::parameters);
  guarded<RuntimeError>(name_, "unshard", visit.unit->name,
                        [&] { role_.unshard(visit, upcoming); });
}

void GuardedSharder::reshard(const Visit& visit, std::span<const Visit> upcoming) {
  guarded<RuntimeError>(name_, "reshard", visit.unit->name,
                        [&] { role_.reshard(visit, upcoming); });
}

void GuardedBinder::allocate_weights(const std::vector<Parameter*>& parameters) {
  MemoryScope scope(MemoryCategory::parameters);
  guarded<RuntimeError>(name_, "allocate_weights", "", [&] { role_.allocate_weights(parameters); });
  for (const Parameter* parameter : parameters)
    check_elements(name_, "allocate_weights", *parameter, "master", parameter->master,
                   parameter->state_placement.num_elements());
}

void GuardedBinder::weights_changed() {
  MemoryScope scope(MemoryCategory::parameters);
  guarded<RuntimeError>(name_, "weights_changed", "", [&] { role_.weights_changed(); });
}

void GuardedObserver::before_unit(const UnitInfo& unit, int micro_batch, Phase phase) {
  guarded<RuntimeError>(name_, "before_unit", unit.name,
                        [&] { role_.before_unit(unit, micro_batch, phase); });
}

void GuardedObserver::after_unit(const UnitInfo& unit, int micro_batch, Phase phase) {
  guarded<RuntimeError>(name_, "after_unit", unit.name,
                        [&] { role_.after_unit(unit, micro_batch, phase); });
}

int GuardedExchange::add_bucket(const GradientBucket& bucket, Comm& comm) {
  MemoryScope scope(MemoryCategory::communication);
  return guarded<RuntimeError>(name_, "add_bucket", "",
                               [&] { return exchange_.add_bucket(bucket, comm); });
}

void GuardedExchange::start(int bucket, std::span<const at::Tensor> outputs,
                            std::span<const at::Tensor> inputs) {
  MemoryScope scope(MemoryCategory::communication);
  guarded<RuntimeError>(name_, "start", "", [&] { exchange_.start(bucket, outputs, inputs); });
}

void GuardedExchange::finish(int bucket) {
  MemoryScope scope(MemoryCategory::communication);
  guarded<RuntimeError>(name_, "finish", "", [&] { exchange_.finish(bucket); });
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
