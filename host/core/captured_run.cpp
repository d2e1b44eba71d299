#include "core/captured_run.h"

#include "core/gather.h"

namespace cleave {

namespace {

NamedTensors gather(const TrainerContext& context, Placement Parameter::*placement,
                    at::Tensor Parameter::*part) {
  NamedTensors tensors;
  for (const Parameter* parameter : context.model.parameters)
    tensors[parameter->name] = gather_whole(*parameter, parameter->*placement, parameter->*part,
                                            context.mesh, context.communicators.world());
  return tensors;
}

NamedTensors gather_weights(const TrainerContext& context) {
  return gather(context, &Parameter::state_placement, &Parameter::master);
}

}  // namespace

CapturedRun capture(const TrainerContext& given) {
  CapturedRun run;
  TrainerContext context = given;
  context.after_reduction = [&](int64_t step) {
    if (step == 0)
      run.first_gradients =
          gather(given, &Parameter::gradient_placement, &Parameter::reduced_gradient);
  };
  Trainer trainer(context, nullptr);
  run.initial_weights = gather_weights(given);
  for (int64_t step = 0; step < context.config.train.steps; ++step)
    run.records.push_back(trainer.train_step(step));
  run.final_weights = gather_weights(given);
  for (int i = 0; i < static_cast<int>(MemoryCategory::count); ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    run.peak_bytes[category] = given.memory.peak_bytes(category);
  }
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
