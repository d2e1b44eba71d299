// The command of a row.
#include "compare/launch.h"

#include <gtest/gtest.h>

#include "compare_fixture.h"

namespace cleave::test {
namespace {

using Strings = std::vector<std::string>;

class Launching : public testing::Test {
 protected:
  /// Of the last row.
  Launch launch(const std::string& text) {
    config_ = folder_.load("config = \"run.toml\"\n" + text);
    return make_launch(config_, make_rows(config_, load_shared_run(config_)).back(), "r.toml",
                       "out/1");
  }
  /// The arguments before this program, and those after it.
  static std::pair<Strings, Strings> around_program(const Launch& launch) {
    const auto program = std::find(launch.arguments.begin(), launch.arguments.end(),
                                   std::filesystem::read_symlink("/proc/self/exe").string());
    EXPECT_NE(program, launch.arguments.end());
    return {{launch.arguments.begin(), program}, {program + 1, launch.arguments.end()}};
  }

  CompareFolder folder_;
  CompareConfig config_;
};

TEST_F(Launching, ProcessesStartUnderMpirun) {
  const auto [before, after] =
      around_program(launch("ranks = [3]\n[strategies]\nx = {strategy.fsdp = {}}\n"));
  EXPECT_EQ(before, (Strings{"mpirun", "-np", "3"}));
  EXPECT_EQ(after, (Strings{"--config", "r.toml", "--set", "strategy.fsdp={}", "--set",
                            "metrics.directory=\"out/1\""}));
}

TEST_F(Launching, OneRankNeedsNoLauncher) {
  const auto [before, after] = around_program(launch("ranks = [1]\n"));
  EXPECT_TRUE(before.empty());
}

TEST_F(Launching, ThreadsNeedNoLauncherButTheirNumber) {
  const auto [before, after] = around_program(launch(
      "ranks = [6]\n[mesh]\ntensor = 3\n[backends]\nx = {communication.backend = \"local\"}"));
  EXPECT_TRUE(before.empty());
  EXPECT_EQ(std::count(after.begin(), after.end(), "mesh.data=2"), 1);
}

TEST_F(Launching, ThreadsThatDontFillTheMeshAreRefused) {
  const Launch start =
      launch("ranks = [4]\n[mesh]\ntensor = 3\n[communication]\nbackend = \"local\"");
  EXPECT_EQ(start.refusal, "the mesh has 3 ranks, this row 4");
}

TEST_F(Launching, LinksSpreadTheRanksOverNodes) {
  const std::string link = "ranks = [4]\nnetlab = \"/bin/true\"\n[links]\nx = {rate = \"1gbit\"}";
  const auto [before, after] = around_program(launch(link));
  EXPECT_EQ(before, (Strings{"/bin/true", "--nodes", "2", "--rate", "1gbit", "--delay", "none",
                             "--ranks-per-node", "2", "--"}));
  EXPECT_EQ(launch("ranks = [3]\nnetlab = \"/bin/true\"\n[links]\nx = {rate = \"1gbit\"}").refusal,
            "3 ranks don't spread evenly over 2 nodes");
  EXPECT_EQ(launch(link + "\n[communication]\nbackend = \"local\"").refusal,
            "ranks that are threads of one process use no link");
  EXPECT_EQ(launch("ranks = [2]\nnetlab = \"no/netlab\"\n[links]\nx = {nodes = 2}").skip_reason,
            "no/netlab is not there; set netlab to the path of tools/netlab");
}

TEST_F(Launching, WordsAreQuotedForAShell) {
  EXPECT_EQ(shell_line({{"A", "x y"}}, {"host", "--set", "a.b=\"c\"", "it's", ""}),
            "A='x y' host --set 'a.b=\"c\"' 'it'\\''s' ''");
}

TEST_F(Launching, EveryRowHasAsManyThreadsARank) {
  setenv("OMP_NUM_THREADS", "5", 1);
  config_ = folder_.load("config = \"run.toml\"\nranks = [1, 60000]\n");
  const auto has_threads = [&] {
    for (const auto& [name, value] : environment_changes(config_))
      if (name == "OMP_NUM_THREADS") return value;
    return std::string();
  };
  EXPECT_EQ(has_threads(), "");  // the user's own stays
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(has_threads(), "1");
}

}  // namespace
}  // namespace cleave::test
