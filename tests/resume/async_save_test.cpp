// Training goes on while a checkpoint is written; nothing of that gets into it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <sstream>

#include "core/checkpoint_preflight.h"
#include "core/checkpoint_saver.h"
#include "core/rank.h"
#include "training.h"

namespace cleave::test {
namespace {

TEST(AsyncSave, HoldsOfEachStepWhatASaveThatIsWaitedForHolds) {
  for (const Layout& layout : {one_rank(), ddp(2), zero(3, 2)}) {
    SCOPED_TRACE(layout.name);
    const TemporaryFolder folder;
    RunConfig waits = resume_config(folder, "waits"), goes_on = resume_config(folder, "goes on");
    for (RunConfig* config : {&waits, &goes_on}) {
      config->checkpoint.every_steps = 1;
      config->checkpoint.keep = 100;
    }
    waits.checkpoint.asynchronous = false;
    train_until(6, waits, layout);
    train_until(6, goes_on, layout);
    for (int64_t step = 1; step <= 6; ++step)
      expect_same_values(read_checkpoint(checkpoint_of(goes_on, step)),
                         read_checkpoint(checkpoint_of(waits, step)));
  }
}

// 40 MB take a while to arrive on the disk.
RunConfig slow_to_write(const TemporaryFolder& folder) {
  RunConfig config = resume_config(folder);
  config.model.vocab_size = 4099;
  config.model.hidden_size = 256;
  config.train.steps = 1;
  config.train.global_batch_size = config.train.micro_batch_size = 2;
  return on(config, one_rank());
}

void overwrite_state(const TrainerContext& context, const Optimizer& optimizer) {
  for (const Parameter* parameter : context.parameters) {
    parameter->master.fill_(7);
    for (const OptimizerState& state : optimizer.states(*parameter)) state.tensor.fill_(8);
  }
}

TEST(AsyncSave, HoldsNothingThatIsChangedWhileItIsWritten) {
  const TemporaryFolder straight_folder, folder;
  const RunConfig straight = slow_to_write(straight_folder), config = slow_to_write(folder);
  train_until(1, straight, one_rank());
  std::ostringstream console;
  run_as_threads(1, [&](const ProcessInfo& process, const Bootstrap& bootstrap,
                        const std::function<void()>& on_failure) {
    run_as_rank(config, process, bootstrap, on_failure,
                [&](const TrainerContext& context, const SolvedPlan&) {
                  auto directory = open_checkpoint_directory(context);
                  Trainer trainer(context, nullptr);
                  CheckpointSaver saver(context, trainer.optimizer(), std::move(directory), nullptr,
                                        console);
                  trainer.train_step(0);
                  saver.after_step(1, false);
                  overwrite_state(context, trainer.optimizer());
                  saver.finish();
                  saver.require_saved();
                });
  });
  expect_same_values(read_checkpoint(checkpoint_of(config, 1)),
                     read_checkpoint(checkpoint_of(straight, 1)));
}

}  // namespace
}  // namespace cleave::test
