// Signals end a run with everything saved; a disk that fails does not end what was saved before.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "host_process.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

void write_long_run(const fs::path& folder, std::map<std::string, std::string> changes = {}) {
  changes.insert({{"train.steps", "100000"},
                  {"optimizer.decay_steps", "1000"},
                  {"train.micro_batch_size", "12"},
                  {"checkpoint.directory", "\"checkpoints\""},
                  {"checkpoint.every_steps", "5"}});
  write_run(folder, changes);
}

// Sends `signal` to `target` ($launcher is mpirun) when some steps are done and a checkpoint is
// there, and waits until mpirun and the ranks are gone; the exit status is mpirun's.
Outcome signalled(const fs::path& folder, const std::string& signal, const std::string& target,
                  int ranks = 2) {
  std::ofstream(folder / "signal.sh")
      << "mpirun -np " << ranks << " host --config run.toml > log 2>&1 & launcher=$!\n"
      << "until [ -e checkpoints/latest ] || ! kill -0 $launcher; do sleep 0.05; done\n"
      << "ranks=$(pgrep -P $launcher)\n"
      << "kill -" << signal << " " << target << "\n"
      << "wait $launcher; status=$?\n"
      << wait_until_gone("$ranks") << "cat log; exit $status\n";
  return run_command("bash signal.sh", folder);
}

// Ranks 1 and 2 wait for rank 3, rank 0 for one of them; between two steps all of them may do.
TEST(Stalled, RankIsNamedByWhomItKeepsWaiting) {
  const TemporaryFolder folder;
  write_long_run(folder.path(), {{"model.hidden_size", "32"},
                                 {"model.num_attention_heads", "4"},
                                 {"model.num_key_value_heads", "2"},
                                 {"mesh.data", "2"},
                                 {"mesh.tensor", "2"},
                                 {"strategy.tensor-parallel.sequence_parallel", "false"},
                                 {"communication.timeout_s", "10"}});
  const std::string rank_3 =
      "$(for rank in $(pgrep -P $launcher); do"
      " grep -qz ^OMPI_COMM_WORLD_RANK=3$ /proc/$rank/environ && echo $rank; done)";
  const Outcome run = signalled(folder.path(), "STOP", rank_3, 4);
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_TRUE(run.contains("waits for rank 1 (rank 3 of all); look") || run.contains(" 3; look"))
      << run.output;
}

int last_step(const fs::path& folder) {
  return std::stoi(metric(folder, "step").back());
}

int step_of(const std::string& name) {
  return std::stoi(name.substr(name.find('-') + 1));
}

int saved_step(const fs::path& folder) {
  std::string name;
  std::ifstream(folder / "checkpoints" / "latest") >> name;
  return step_of(name);
}

// A checkpoint is whole before `latest` names it.
int newest_step(const fs::path& folder) {
  int step = 0;
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints")) {
    const fs::path name = entry.path().filename();
    if (name.string().starts_with("step-") && name.extension().empty())
      step = std::max(step, step_of(name));
  }
  return step;
}

Outcome go_on(const fs::path& folder, int steps) {
  return run_command(
      "mpirun -np 2 host --config run.toml --set train.steps=" + std::to_string(steps), folder);
}

struct Request {
  const char* signal;
  const char* target;
};
class Stop : public testing::TestWithParam<Request> {};
INSTANTIATE_TEST_SUITE_P(Signals, Stop,
                         testing::Values(Request{"USR1", "$launcher"},
                                         Request{"USR1", "$(pgrep -P $launcher | tail -1)"},
                                         Request{"TERM", "$(pgrep -P $launcher | head -1)"}));

TEST_P(Stop, SavesTheStepAndLeavesWithZero) {
  const TemporaryFolder folder;
  write_long_run(folder.path());
  const Outcome run = signalled(folder.path(), GetParam().signal, GetParam().target);
  EXPECT_EQ(run.exit_code, 0) << run.output;
  const int step = last_step(folder.path());
  EXPECT_EQ(saved_step(folder.path()), step) << run.output;
  EXPECT_TRUE(run.contains("stopped by a signal after step " + std::to_string(step))) << run.output;
  const Outcome again = go_on(folder.path(), step + 2);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_TRUE(again.contains("step " + std::to_string(step) + " of ")) << again.output;
}

class Interrupt : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Signals, Interrupt, testing::Values("INT", "TERM"));

TEST_P(Interrupt, OfMpirunLeavesTheLastCheckpointWhole) {
  const TemporaryFolder folder;
  write_long_run(folder.path());
  const Outcome run = signalled(folder.path(), GetParam(), "$launcher");
  EXPECT_NE(run.exit_code, 0) << run.output;
  const int step = newest_step(folder.path());
  const Outcome again = go_on(folder.path(), step + 2);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_FALSE(again.contains("passed over")) << again.output;
  EXPECT_EQ(last_step(folder.path()), step + 2);
}

// A limit on the size of files stands for a full disk: it needs no rights.
class FullDisk : public testing::Test {
 protected:
  FullDisk() {
    write_run(folder_.path(), {{"communication.backend", "\"local\""},
                               {"mesh.data", "2"},
                               {"train.steps", "3"},
                               {"train.micro_batch_size", "12"},
                               {"optimizer.decay_steps", "10"},
                               {"checkpoint.directory", "\"checkpoints\""},
                               {"checkpoint.every_steps", "1"}});
    first_ = run_command("host --config run.toml", folder_.path());
    EXPECT_EQ(first_.exit_code, 0) << first_.output;
  }

  Outcome run_on_full_disk(const std::string& rest) {
    std::ofstream(folder_.path() / "full.sh")
        << "trap \"\" XFSZ\nulimit -f 32\n"
        << "host --config run.toml --set train.steps=6 " << rest << "\n";
    return run_command("bash full.sh", folder_.path());
  }

  void expect_only_old_ones() {
    const Outcome list = run_command("ls checkpoints; host inspect checkpoints", folder_.path());
    EXPECT_EQ(list.exit_code, 0) << list.output;
    EXPECT_TRUE(list.contains("step-00000003")) << list.output;
    EXPECT_FALSE(list.contains("step-00000004")) << list.output;
  }

  TemporaryFolder folder_;
  Outcome first_;
};

TEST_F(FullDisk, TrainingGoesOnAndTheRunEndsWithAnError) {
  const Outcome run = run_on_full_disk("");
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_TRUE(run.contains("checkpoint: not saved: step 4: rank 0: ")) << run.output;
  EXPECT_TRUE(run.contains("File too large")) << run.output;
  EXPECT_TRUE(run.contains("the last checkpoint could not be saved: step 6: ")) << run.output;
  EXPECT_EQ(last_step(folder_.path()), 6);
  expect_only_old_ones();
}

TEST_F(FullDisk, StopsTheRunWhenAskedTo) {
  const Outcome run = run_on_full_disk("--set checkpoint.on_failure=stop");
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_TRUE(run.contains("the checkpoint could not be saved: step 4: ")) << run.output;
  EXPECT_LT(last_step(folder_.path()), 6);
  expect_only_old_ones();
}

TEST(CheckpointDirectory, ThatCannotBeMadeIsRefusedBeforeTheFirstStep) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"checkpoint.directory", "\"text.txt/checkpoints\""}});
  const Outcome run = run_command("mpirun -np 2 host --config run.toml", folder.path());
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_TRUE(run.contains("checkpoint.directory: rank 0: text.txt/checkpoints: can"))
      << run.output;
  EXPECT_EQ(run.count("error:"), 1) << run.output;
}

TEST(CheckpointDirectory, OfAnotherRunIsRefused) {
  const TemporaryFolder folder;
  write_long_run(folder.path());
  std::ofstream(folder.path() / "two.sh")
      << "mpirun -np 2 host --config run.toml > log 2>&1 & first=$!\n"
      << "until [ -e checkpoints/latest ] || ! kill -0 $first; do sleep 0.05; done\n"
      << "host --config run.toml --set metrics.directory=other; status=$?\n"
      << "kill -USR1 $first; wait $first && exit $status\n";
  const Outcome run = run_command("bash two.sh", folder.path());
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_TRUE(run.contains("another run saves its checkpoints there")) << run.output;
}

}  // namespace
}  // namespace cleave::test
