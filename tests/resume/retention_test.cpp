// What is left after a run, and runs that have nothing left to do.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_directory.h"
#include "training.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

TEST(Retention, LeavesTheNewest) {
  const TemporaryFolder folder;
  RunConfig config = resume_config(folder);
  config.checkpoint.every_steps = 1;
  config.checkpoint.keep = 2;
  train_until(5, config, ddp(2));
  const auto left = find_checkpoints(config.checkpoint.directory);
  ASSERT_EQ(left.size(), 2);
  EXPECT_EQ(left[0].step, 5);
  EXPECT_EQ(left[1].step, 4);
  for (const FoundCheckpoint& checkpoint : left) read_checkpoint(checkpoint.folder);
  // nothing half written or half removed
  const auto is_left = [](const fs::path& path) {
    const std::string name = path.filename().string();
    return name == "latest" || name == ".lock" || name == "step-00000004" ||
           name == "step-00000005";
  };
  for (const auto& entry : fs::directory_iterator(config.checkpoint.directory))
    EXPECT_TRUE(is_left(entry.path())) << entry.path();
}

TEST(Retention, SavesTheLastStepOnce) {
  const TemporaryFolder folder;
  RunConfig config = resume_config(folder);
  config.checkpoint.every_steps = 2;
  const Training training = train_until(4, config, one_rank());
  const std::string saved = "checkpoint: step 4 saved to ";
  const size_t first = training.console.find(saved);
  ASSERT_NE(first, std::string::npos) << training.console;
  EXPECT_EQ(training.console.find(saved, first + 1), std::string::npos) << training.console;
}

class DoneAlready : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, DoneAlready,
                         testing::Values(one_rank(), ddp(2), fsdp(2), pipeline(2)));

TEST_P(DoneAlready, RunsNoStepAndStillExports) {
  const TemporaryFolder folder;
  RunConfig config = resume_config(folder);
  config.model.export_folder = folder.path() / "at once";
  const Training before = train_until(4, config, GetParam());
  const auto exported = read_files(config.model.export_folder);

  for (const int64_t steps : {4, 3}) {
    config.model.export_folder = folder.path() / ("later " + std::to_string(steps));
    const Training after = train_until(steps, config, GetParam());
    expect_same_steps(after, before);
    EXPECT_NE(after.console.find("no step was run"), std::string::npos) << after.console;
    EXPECT_EQ(after.console.find("nan"), std::string::npos) << after.console;
    EXPECT_EQ(read_files(config.model.export_folder), exported);
    EXPECT_EQ(find_checkpoints(config.checkpoint.directory).size(), 1);
  }
}

}  // namespace
}  // namespace cleave::test
