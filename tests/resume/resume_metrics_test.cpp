// metrics.jsonl tells of each step once, however often the run was ended.
#include <gtest/gtest.h>

#include "training.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

void expect_steps(const Training& training, int64_t count) {
  ASSERT_EQ(std::ssize(training.steps), count);
  for (int64_t i = 0; i < count; ++i) EXPECT_EQ(training.steps[i].step, i + 1);
}

TEST(ResumeMetrics, OfFiveAndSevenStepsAreTwelveLines) {
  const TemporaryFolder folder;
  const RunConfig config = resume_config(folder);
  expect_steps(train_until(5, config, ddp(2)), 5);
  expect_steps(train_until(12, config, ddp(2)), 12);
}

// Killed in the middle of a line, after steps that no checkpoint has.
TEST(ResumeMetrics, OfStepsThatRunAgainAndALineThatIsCutGo) {
  const TemporaryFolder folder;
  RunConfig config = resume_config(folder), straight = resume_config(folder, "straight");
  config.checkpoint.every_steps = 3;
  train_until(5, config, ddp(2));
  fs::remove_all(checkpoint_of(config, 5));
  const fs::path metrics = config.metrics.directory / "metrics.jsonl";
  fs::resize_file(metrics, fs::file_size(metrics) - 40);
  expect_same_steps(train_until(6, config, ddp(2)), train_until(6, straight, ddp(2)));
}

TEST(ResumeMetrics, OfTheCheckpointsStepStayWhenTheNextLineIsCut) {
  const TemporaryFolder folder;
  const RunConfig config = resume_config(folder);
  train_until(3, config, one_rank());
  const fs::path metrics = config.metrics.directory / "metrics.jsonl";
  write_file(metrics, read_file(metrics) + "{\"step\":4,\"lo");
  expect_steps(train_until(5, config, one_rank()), 5);
}

TEST(ResumeMetrics, OfAnEarlierRunGoWhenARunBeginsAnew) {
  const TemporaryFolder folder;
  RunConfig config = resume_config(folder);
  train_until(5, config, one_rank());
  config.checkpoint.resume = "none";
  expect_steps(train_until(3, config, one_rank()), 3);
}

}  // namespace
}  // namespace cleave::test
