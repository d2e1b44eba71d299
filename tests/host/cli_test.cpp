// What needs no ranks: help, versions, check, --print-config, prepare, and policies of the tree.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "host_process.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Cli, HelpAndVersionAreThere) {
  const TemporaryFolder folder;
  for (const char* command : {"host --help", "host check --help", "host prepare --help"}) {
    const Outcome run = run_command(command, folder.path());
    EXPECT_EQ(run.exit_code, 0) << run.output;
    EXPECT_TRUE(run.contains("--")) << run.output;
  }
  const Outcome version = run_command("host --version", folder.path());
  EXPECT_EQ(version.exit_code, 0);
  for (const char* library : {"Cleave ", "LibTorch ", "Boost ", "toml++ ", "CLI11 ", "spdlog "})
    EXPECT_TRUE(version.contains(library)) << version.output;
}

TEST(Cli, OutputThatGoesNowhereIsAnError) {
  const TemporaryFolder folder;
  const Outcome run = run_command("host describe > /dev/full", folder.path());
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_TRUE(run.contains("standard output can")) << run.output;
}

TEST(Cli, CheckSolvesAnyWorldSizeInOneProcess) {
  const TemporaryFolder folder;
  write_run(folder.path());
  const Outcome run = run_command("host check --config run.toml --world-size 24", folder.path());
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.contains("data 24")) << run.output;
  EXPECT_FALSE(fs::exists(folder.path() / "metrics"));
  const Outcome refused = run_command("host check --config run.toml --world-size 5", folder.path());
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_TRUE(refused.contains("is not a multiple of")) << refused.output;
  EXPECT_FALSE(refused.contains("model:")) << refused.output;
}

TEST(Cli, PrintedConfigLoadsToTheSameRun) {
  const TemporaryFolder folder;
  write_run(folder.path());
  const Outcome first =
      run_command("host --config run.toml --set train.steps=7 --print-config", folder.path());
  ASSERT_EQ(first.exit_code, 0) << first.output;
  EXPECT_TRUE(first.contains("--set")) << first.output;
  std::ofstream(folder.path() / "printed.toml") << first.output;
  const Outcome second = run_command("host --config printed.toml --print-config", folder.path());
  ASSERT_EQ(second.exit_code, 0) << second.output;
  EXPECT_TRUE(second.contains("steps = 7")) << second.output;
}

TEST(Cli, PreparedTokensTrainLikeTheText) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"train.steps", "3"}});
  ASSERT_EQ(run_command("mpirun -np 1 host --config run.toml", folder.path()).exit_code, 0);
  const auto expected = metric(folder.path(), "loss");
  const Outcome prepared = run_command("host prepare text.txt --output tokens", folder.path());
  ASSERT_EQ(prepared.exit_code, 0) << prepared.output;
  const Outcome run =
      run_command("mpirun -np 1 host --config run.toml --set data.path=tokens", folder.path());
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(metric(folder.path(), "loss"), expected);
}

// As a string to compare with, or as the table that turns a strategy on. (pipeline is an axis too.)
TEST(Policy, NoStrategyNameOccursInTheHost) {
  std::vector<std::string> names;
  for (const auto& folder : fs::directory_iterator(CLEAVE_SOURCE "/plugins/strategy")) {
    const std::string name = folder.path().filename().string();
    names.push_back("strategy." + name);
    if (name != "pipeline") names.push_back('"' + name + '"');
  }
  ASSERT_FALSE(names.empty());
  for (const auto& entry : fs::recursive_directory_iterator(CLEAVE_SOURCE "/host")) {
    if (!entry.is_regular_file()) continue;
    const std::string text = content(entry.path());
    for (const std::string& name : names)
      EXPECT_EQ(text.find(name), std::string::npos) << name << " in " << entry.path();
  }
}

TEST(Policy, FilesStayWithinTheirBudget) {
  for (const char* part : {"host", "plugins", "sdk"})
    for (const auto& entry :
         fs::recursive_directory_iterator(CLEAVE_SOURCE "/" + std::string(part))) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".h") continue;
      const std::string text = content(entry.path());
      EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 400) << entry.path();
    }
}

}  // namespace
}  // namespace cleave::test
