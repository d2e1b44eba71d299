// The real program with plugins that can't be used: one message, exit 2, on all ranks, no hang.
#include <gtest/gtest.h>

#include "host/host_process.h"

namespace cleave::test {
namespace {

struct BadPlugin {
  const char* name;
  std::map<std::string, std::string> changes;  // that ask for it
  const char* expected;
};

void PrintTo(const BadPlugin& plugin, std::ostream* out) {
  *out << plugin.name;
}

class PluginProgram : public testing::TestWithParam<BadPlugin> {};
INSTANTIATE_TEST_SUITE_P(Host, PluginProgram,
                         testing::Values(BadPlugin{"OfAnotherSdk",
                                                   {{"communication.backend", "\"minor-above\""}},
                                                   "SDK version is "},
                                         BadPlugin{
                                             "ThatAborts",
                                             {{"communication.backend", "\"aborting-entry\""}},
                                             "ended the process by signal 6 (Aborted)"},
                                         BadPlugin{"ThatHangs",
                                                   {{"strategy.hanging-initialiser.x", "1"}},
                                                   "did not return within 20 s"}),
                         [](const auto& info) { return info.param.name; });

TEST_P(PluginProgram, StopsAllRanksWithOneMessage) {
  const BadPlugin& plugin = GetParam();
  const TemporaryFolder folder;
  write_run(folder.path(), plugin.changes);
  const Outcome run = run_command(
      "CLEAVE_PLUGIN_PATH=" FIXTURE_FOLDER " mpirun -np 2 host --config run.toml", folder.path());
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_EQ(run.count("error: "), 1) << run.output;
  EXPECT_TRUE(run.contains(plugin.expected)) << run.output;
  EXPECT_TRUE(run.contains(FIXTURE_FOLDER)) << run.output;
  EXPECT_FALSE(run.contains("step: ")) << run.output;
}

}  // namespace
}  // namespace cleave::test
