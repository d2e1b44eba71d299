// Roles as the host calls them: whatever a plugin's hook throws becomes one RuntimeError that names
// plugin, hook and what it was working on. The rank is named by who prints it. What a hook
// allocates is booked to what the role is about, unless the plugin says otherwise (memory.h).
#pragma once

#include <string>

#include "cleave/error.h"
#include "cleave/strategy.h"
#include "core/exception_text.h"

namespace cleave {

/// Runs `call`; throws Failure("strategy <name>: <hook>(<subject>): <what>") for whatever it
/// throws. Nothing is built unless it throws.
template <typename Failure, typename Call>
decltype(auto) guarded(const std::string& name, const char* hook, const std::string& subject,
                       Call&& call) {
  try {
    return call();
  } catch (...) {
    throw Failure(message("strategy ", name, ": ", hook, "(", subject, "): ", exception_text()));
  }
}

class GuardedReducer final : public GradientReducer {
 public:
  GuardedReducer(std::string name, GradientReducer& role) : name_(std::move(name)), role_(role) {}
  void allocate_gradients(const std::vector<Parameter*>& backward_order) override;
  void provide_gradients(const UnitInfo& unit) override;
  void gradient_ready(Parameter& parameter, bool is_last) override;
  void finish_gradients() override;

 private:
  std::string name_;
  GradientReducer& role_;
};

class GuardedSharder final : public ParameterSharder {
 public:
  GuardedSharder(std::string name, ParameterSharder& role) : name_(std::move(name)), role_(role) {}
  void unshard(const Visit& visit, std::span<const Visit> upcoming) override;
  void reshard(const Visit& visit, std::span<const Visit> upcoming) override;

 private:
  std::string name_;
  ParameterSharder& role_;
};

class GuardedBinder final : public OptimizerBinder {
 public:
  GuardedBinder(std::string name, OptimizerBinder& role) : name_(std::move(name)), role_(role) {}
  void allocate_weights(const std::vector<Parameter*>& parameters) override;
  void weights_changed() override;

 private:
  std::string name_;
  OptimizerBinder& role_;
};

class GuardedObserver final : public UnitObserver {
 public:
  GuardedObserver(std::string name, UnitObserver& role) : name_(std::move(name)), role_(role) {}
  void before_unit(const UnitInfo& unit, int micro_batch, Phase phase) override;
  void after_unit(const UnitInfo& unit, int micro_batch, Phase phase) override;

 private:
  std::string name_;
  UnitObserver& role_;
};

class GuardedExchange final : public GradientExchange {
 public:
  GuardedExchange(std::string name, GradientExchange& exchange)
      : name_(std::move(name)), exchange_(exchange) {}
  int add_bucket(const GradientBucket& bucket, Comm& comm) override;
  void start(int bucket, std::span<const at::Tensor> outputs,
             std::span<const at::Tensor> inputs) override;
  void finish(int bucket) override;

 private:
  std::string name_;
  GradientExchange& exchange_;
};

class GuardedStepWrapper final : public StepWrapper {
 public:
  GuardedStepWrapper(std::string name, StepWrapper& role) : name_(std::move(name)), role_(role) {}
  void update(int64_t step, const std::function<void()>& next) override;

 private:
  std::string name_;
  StepWrapper& role_;
};

}  // namespace cleave
