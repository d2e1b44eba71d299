#include "process/print_description.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cleave/error.h"
#include "support/temporary_folder.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;

std::string printed(const DescribeRequest& request) {
  std::ostringstream out;
  print_description(request, out);
  return out.str();
}

std::string error_of(const std::string& plugin) {
  try {
    printed({plugin});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

class PrintDescription : public testing::Test {
 protected:
  PrintDescription() { unsetenv("CLEAVE_PLUGIN_PATH"); }
  ~PrintDescription() override { unsetenv("CLEAVE_PLUGIN_PATH"); }
};

TEST_F(PrintDescription, FindsAPluginByItsNameOrItsTable) {
  const std::string text = printed({"ddp"});
  EXPECT_EQ(text.find("strategy ddp "), 0u) << text;
  EXPECT_NE(text.find("bucket_bytes  bytes"), std::string::npos) << text;
  EXPECT_EQ(printed({"strategy.ddp"}), text);
  EXPECT_EQ(printed({"communication.mpi"}), printed({"mpi"}));
}

TEST_F(PrintDescription, PrintsTheFormThatIsAskedFor) {
  EXPECT_EQ(nlohmann::json::parse(printed({"local", true}))["name"], "local");
  EXPECT_EQ(printed({"", true}), describe_host_json());
  EXPECT_EQ(printed({}), describe_host());
  EXPECT_EQ(printed({"", false, true}).find("# Reference\n"), 0u);
}

TEST_F(PrintDescription, RefusesUnknownNamesWithTheNearest) {
  EXPECT_EQ(error_of("dpd"), "host describe dpd: no such plugin; did you mean ddp?");
  EXPECT_EQ(error_of("strategy.dd"),
            "host describe strategy.dd: no such plugin; did you mean strategy.ddp?");
  EXPECT_EQ(error_of("zzzzzz"),
            "host describe zzzzzz: no such plugin; host plugins lists those that are found");
}

TEST_F(PrintDescription, AsksWhichOfTwoIsMeant) {
  const test::TemporaryFolder folder;
  const fs::path copy = folder.path() / "libcleave_strategy_mpi.so";
  fs::copy_file(fs::path(CLEAVE_PLUGINS) / "libcleave_strategy_ddp.so", copy);
  setenv("CLEAVE_PLUGIN_PATH", folder.path().c_str(), 1);
  EXPECT_EQ(error_of("mpi"),
            "host describe mpi: there are two of that name; write communication.mpi or "
            "strategy.mpi");
  EXPECT_EQ(printed({"communication.mpi"}).find("communication mpi "), 0u);
  EXPECT_EQ(error_of("strategy.mpi").find("strategy plugin mpi (" + copy.string() + "): "), 0u)
      << error_of("strategy.mpi");
}

}  // namespace
}  // namespace cleave
