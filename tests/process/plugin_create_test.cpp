// A plugin's create that fails is the user's to know before anything starts.
#include <gtest/gtest.h>

#include "cleave/error.h"
#include "core/communicators.h"
#include "core/strategies.h"
#include "map_environment.h"

namespace cleave {
namespace {

RunConfig config_of(const PluginTable& table, bool is_strategy) {
  RunConfig config{};
  if (is_strategy)
    config.strategies = {table};
  else
    config.communication.backend = table;
  return config;
}

class Create : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { ::setenv("CLEAVE_PLUGIN_PATH", FIXTURE_FOLDER, 1); }
  void TearDown() override { ::unsetenv("CLEAVE_PLUGIN_PATH"); }

  std::string error_of(const std::string& how) const {
    const PluginTable table{
        "throwing-create", {"run.toml:9:1"}, {{"how", "\"" + how + "\"", {"run.toml:10:1"}}}};
    const RunConfig config = config_of(table, GetParam());
    return message_of<ConfigError>([&] {
      if (GetParam()) {
        Strategies strategies(config);
        return;
      }
      const auto bootstraps = make_thread_bootstraps(1);
      Communicators communicators(config, Mesh({{"data", 1}}), *bootstraps[0]);
    });
  }
  void expect(const std::string& how, const std::string& what) const {
    const std::string kind = GetParam() ? "strategy" : "communication";
    const std::string text = error_of(how);
    EXPECT_TRUE(text.starts_with("run.toml:9:1: " + kind + " throwing-create: create " + what))
        << text;
    EXPECT_NE(text.find("/libcleave_" + kind + "_throwing-create.so"), text.npos) << text;
    EXPECT_EQ(text.find('\n'), text.npos) << text;
  }
};
INSTANTIATE_TEST_SUITE_P(Plugins, Create, testing::Bool(), [](const auto& info) {
  return info.param ? "Strategy" : "Communication";
});

TEST_P(Create, NamesWhatWasThrownInOneLine) {
  expect("torch", "threw: no such kernel");
  expect("std", "threw: no licence, no luck");
  expect("int", "threw: a thrown int");
}

// The user's error, not the plugin's fault: no file to mend.
TEST_P(Create, PassesAStrategysOwnRefusalOn) {
  if (!GetParam())
    expect("config", "threw: how = config; write another");
  else
    EXPECT_EQ(error_of("config"),
              "run.toml:9:1: strategy throwing-create: how = config; write another");
}

TEST_P(Create, RefusesNothing) {
  expect("null", "returned nothing");
}

}  // namespace
}  // namespace cleave
