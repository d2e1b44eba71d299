#include "core/captured_run.h"

#include <ATen/ATen.h>

namespace cleave {

namespace {

NamedTensors copy(const std::vector<Parameter*>& parameters, at::Tensor Parameter::*member) {
  NamedTensors copies;
  for (Parameter* parameter : parameters) copies[parameter->name] = (parameter->*member).clone();
  return copies;
}

}  // namespace

CapturedRun capture(const TrainerContext& given) {
  CapturedRun run;
  const std::vector<Parameter*>& parameters = given.model.parameters;
  TrainerContext context = given;
  context.after_reduction = [&](int64_t step) {
    if (step == 0) run.first_gradients = copy(parameters, &Parameter::gradient);
  };
  Trainer trainer(context, nullptr);
  run.initial_weights = copy(parameters, &Parameter::value);
  for (int64_t step = 0; step < context.config.train.steps; ++step)
    run.records.push_back(trainer.train_step(step));
  run.final_weights = copy(parameters, &Parameter::value);
  return run;
}

CapturedRun run_captured(const RunConfig& config, const ProcessInfo& process,
                         const Bootstrap& bootstrap, const std::function<void()>& on_failure) {
  CapturedRun run;
  run_as_rank(config, process, bootstrap, on_failure,
              [&](const TrainerContext& context, const SolvedPlan&) { run = capture(context); });
  return run;
}

}  // namespace cleave
