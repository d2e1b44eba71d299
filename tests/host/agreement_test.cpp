// Ranks that were told different things stop before step 1, and the odd one is named.
#include <gtest/gtest.h>

#include <fstream>

#include "host_process.h"

namespace cleave::test {
namespace {

// Three ranks of which the last gets `change` on its command line.
Outcome run_with_odd_rank(const TemporaryFolder& folder, const std::string& change) {
  return run_command("mpirun -np 2 host --config run.toml : -np 1 host --config run.toml " + change,
                     folder.path());
}

void expect_refusal(const Outcome& run, const std::string& what) {
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_EQ(run.count("error: "), 1) << run.output;
  EXPECT_TRUE(run.contains("ranks differ in " + what + ": rank 2 of 3")) << run.output;
}

TEST(Agreement, OtherConfigurationOnOneRankIsNamed) {
  const TemporaryFolder folder;
  write_run(folder.path());
  expect_refusal(run_with_odd_rank(folder, "--set optimizer.lr=2e-3"), "the configuration");
}

TEST(Agreement, OtherPluginOptionOnOneRankIsNamed) {
  const TemporaryFolder folder;
  write_run(folder.path());
  expect_refusal(run_with_odd_rank(folder, "--set strategy.ddp.bucket_bytes=40000"),
                 "the build or options of strategy ddp");
}

// Other algorithms would never meet, so this can't wait for the check of all options.
TEST(Agreement, OtherAlgorithmOnOneRankIsNamed) {
  const TemporaryFolder folder;
  write_run(folder.path());
  std::ofstream(folder.path() / "link.json")
      << R"({"nodes": 1, "fits": [{"op": "send_recv", "alpha_us": 50, "beta_gb_s": 0.2}]})";
  for (const char* change : {"algorithm=ring", "link_file=link.json"})
    expect_refusal(run_with_odd_rank(folder, std::string("--set communication.mpi.") + change),
                   "what communication mpi was told");
}

TEST(Agreement, OtherDataOnOneRankIsNamed) {
  const TemporaryFolder folder;
  write_run(folder.path());
  ASSERT_EQ(run_command("head -c 15000 text.txt > short.txt", folder.path()).exit_code, 0);
  expect_refusal(run_with_odd_rank(folder, "--set data.path=short.txt"),
                 "the number of tokens in data.path");
}

TEST(Agreement, OtherBuildOfAPluginOnOneRankIsNamed) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"strategy.record-step.log", "\"log\""}});
  const Outcome copied = run_command(
      "cp -r $CLEAVE_PLUGIN_PATH plugins && echo >> plugins/libcleave_strategy_record-step.so",
      folder.path());
  ASSERT_EQ(copied.exit_code, 0) << copied.output;
  const Outcome run = run_command(
      "mpirun -np 2 host --config run.toml : "
      "-np 1 env CLEAVE_PLUGIN_PATH=plugins host --config run.toml",
      folder.path());
  expect_refusal(run, "the build or options of strategy record-step");
}

TEST(Agreement, OtherStrategiesOnOneRankAreNamed) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"strategy.ddp.bucket_bytes", ""}, {"mesh.data", "3"}});
  const Outcome run = run_command(
      "mpirun -np 2 host --config run.toml --set strategy.ddp.bucket_bytes=9 : "
      "-np 1 host --config run.toml",
      folder.path());
  EXPECT_EQ(run.exit_code, 2) << run.output;  // rank 2 alone can't claim the axis
  EXPECT_EQ(run.count("error: "), 1) << run.output;
  EXPECT_TRUE(run.contains("rank 2 of 3: ")) << run.output;
}

TEST(Agreement, OtherFoldersPerRankAreAllowed) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"train.steps", "2"}});
  ASSERT_EQ(run_command("cp text.txt copy.txt", folder.path()).exit_code, 0);
  const Outcome run =
      run_with_odd_rank(folder, "--set data.path=copy.txt --set metrics.directory=other");
  EXPECT_EQ(run.exit_code, 0) << run.output;
}

TEST(Agreement, FailingHookOfOneRankEndsAllRanks) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"strategy.ddp.bucket_bytes", ""},
                            {"strategy.faulty.hook", "\"gradient_ready\""},
                            {"strategy.faulty.rank", "1"}});
  const Outcome run = run_command("mpirun -np 3 host --config run.toml", folder.path());
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_EQ(run.count("error: "), 1) << run.output;
  EXPECT_TRUE(run.contains("rank 1 of 3: error: strategy faulty: gradient_ready(lm_head.weight)"))
      << run.output;
  EXPECT_LT(run.seconds, 60);
}

TEST(Check, PrintsRanksPlacementsAndBytesFor64Ranks) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"train.global_batch_size", "64"}});
  const Outcome run = run_command("host check --config run.toml --world-size 64", folder.path());
  EXPECT_EQ(run.exit_code, 0) << run.output;
  for (const char* text : {"data 64", "\n    63", "ddp: all_reduce of Float along data",
                           "replicate", "group(s) of 64"})
    EXPECT_TRUE(run.contains(text)) << text << run.output;
}

}  // namespace
}  // namespace cleave::test
