// What becomes of a run: done, refused, skipped or failed, and in whose words.
#include "compare/measured_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "support/temporary_folder.h"

namespace cleave::test {
namespace {

class Judged : public testing::Test {
 protected:
  Outcome judged(ProgramEnd end, const std::string& log, int64_t steps = 0,
                 bool is_netlab = false) {
    std::ofstream(folder_.path() / "log.txt") << log;
    RunFigures figures;
    figures.loss.resize(static_cast<size_t>(steps));
    return judge(end, figures, 5, folder_.path() / "log.txt", is_netlab);
  }
  static ProgramEnd exit_with(int code) { return {ProgramEnd::Kind::exited, code}; }

  TemporaryFolder folder_;
};

TEST_F(Judged, ARunWithAllStepsIsDone) {
  EXPECT_EQ(judged(exit_with(0), "step: 5/5\n", 5).status, RowStatus::done);
}

TEST_F(Judged, ExitStatusTwoIsARefusalInTheRunsWords) {
  const Outcome outcome = judged(exit_with(2),
                                 "model: x\nerror: run.toml:3:1: a does not divide b;\n  use c\n"
                                 "--------------\nthe launcher's lines\n");
  EXPECT_EQ(outcome.status, RowStatus::refused);
  EXPECT_EQ(outcome.reason, "run.toml:3:1: a does not divide b;\n  use c");
}

TEST_F(Judged, AFailureHasItsRankAndHowFarItCame) {
  const Outcome outcome = judged(exit_with(1), "rank 1 of 2: error: broken\n\nmore\n", 3);
  EXPECT_EQ(outcome.status, RowStatus::failed);
  EXPECT_EQ(outcome.reason, "rank 1 of 2: error: broken\nexit status 1 after 3 of 5 steps");
  EXPECT_EQ(judged({ProgramEnd::Kind::signalled, 11}, "last words\n-----\n").reason,
            "last words\nended by signal 11 (Segmentation fault) after 0 of 5 steps");
  const char* launcher = "step 1\n-----\nrank 1 with PID 5 exited on\nsignal 9 (Killed).\n-----\n";
  EXPECT_EQ(judged(exit_with(137), launcher).reason,
            "rank 1 with PID 5 exited on signal 9 (Killed).\nexit status 137 after 0 of 5 steps");
  EXPECT_EQ(judged(exit_with(1), "").reason,
            "it printed nothing\nexit status 1 after 0 of 5 steps");
}

TEST_F(Judged, TooLongAndTooShortAreFailures) {
  EXPECT_EQ(judged({ProgramEnd::Kind::too_long}, "step: 2/5\n", 2).reason,
            "did not end within its time (limit_s), after 2 of 5 steps; step: 2/5");
  EXPECT_EQ(judged(exit_with(0), "", 4).reason, "metrics.jsonl has 4 of 5 steps");
}

TEST_F(Judged, OnlyALabCanSkip) {
  const std::string log = "tools/netlab: can't run here: no tc\n";
  const Outcome outcome = judged(exit_with(77), log, 0, true);
  EXPECT_EQ(outcome.status, RowStatus::skipped);
  EXPECT_EQ(outcome.reason, "tools/netlab: can't run here: no tc");
  EXPECT_EQ(judged(exit_with(77), log).status, RowStatus::failed);
}

TEST(RunFigures, AreReadUpToTheLastWholeLine) {
  const TemporaryFolder folder;
  const std::string rest =
      R"("tokens_per_s":8,"exposed_communication_ms":1,"wire_bytes":64,"loss":null,)";
  std::ofstream(folder.path() / "metrics.jsonl")
      << R"({"step":1,"step_ms":2.5,)" << rest << R"("peak_memory_mib":[1,7],"resident_mib":[9,8]})"
      << "\n"
      << R"({"step":2,"step_ms":3.5,)" << rest << R"("peak_memory_mib":[3,5],"resident_mib":[9,9]})"
      << "\n{\"step\":3,\"ste";
  const RunFigures figures = read_figures(folder.path() / "metrics.jsonl");
  EXPECT_EQ(figures.step_ms, (std::vector<double>{2.5, 3.5}));
  EXPECT_EQ(figures.peak_memory_mib, (std::vector<double>{3, 7}));
  EXPECT_EQ(figures.resident_mib, (std::vector<double>{9, 9}));
  EXPECT_TRUE(std::isnan(figures.loss[0]));
  EXPECT_TRUE(read_figures(folder.path() / "none").loss.empty());
}

TEST(StepCounter, CountsWholeLinesAsTheFileGrows) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  StepCounter steps(file);
  EXPECT_EQ(steps.count(), 0);
  const auto grow = [&](const std::string& text) {
    std::ofstream(file, std::ios::app) << text;
    return steps.count();
  };
  EXPECT_EQ(grow("{\"step\":1}\n{\"step\":2}\n{\"st"), 2);
  EXPECT_EQ(steps.count(), 2);
  EXPECT_EQ(grow("ep\":3}"), 2);
  EXPECT_EQ(grow("\n"), 3);
  EXPECT_EQ(grow("{\"step\":4}\n"), 4);
}

}  // namespace
}  // namespace cleave::test
