#include <gtest/gtest.h>

#include "cleave/error.h"
#include "map_environment.h"

namespace cleave {
namespace {

TEST(StoreAddress, IsMasterAddressAndPort) {
  const auto address =
      find_store_address(make_environment({{"MASTER_ADDR", "head"}, {"MASTER_PORT", "29501"}}));
  EXPECT_EQ(address.host, "head");
  EXPECT_EQ(address.port, 29501);
  EXPECT_TRUE(address.rank_0_serves);
  EXPECT_EQ(address.prefix, "cleave/0/");
}

TEST(StoreAddress, LeavesTheServerToTorchrunsAgent) {
  const auto address =
      find_store_address(make_environment({{"MASTER_ADDR", "head"},
                                           {"MASTER_PORT", "29501"},
                                           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                           {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_FALSE(address.rank_0_serves);
  EXPECT_EQ(address.prefix, "cleave/2/");
}

TEST(StoreAddress, IsTheFirstHostOfASlurmStep) {
  const auto address = find_store_address(make_environment({{"SLURM_JOB_ID", "123456"},
                                                            {"SLURM_STEP_ID", "1"},
                                                            {"SLURM_JOB_NODELIST", "n[01-04]"},
                                                            {"SLURM_STEP_NODELIST", "n[03-04]"}}));
  EXPECT_EQ(address.host, "n03");
  EXPECT_EQ(address.port, 15000 + (123456 + 1) % 15000);
  EXPECT_EQ(find_store_address(make_environment({{"SLURM_JOB_ID", "1"},
                                                 {"SLURM_STEP_ID", "0"},
                                                 {"MASTER_PORT", "4000"},
                                                 {"SLURM_JOB_NODELIST", "n[01-04]"}}))
                .port,
            4000);
}

TEST(StoreAddress, SaysWhatToSet) {
  const auto error_of = [](std::map<std::string, std::string> variables) {
    return message_of<ConfigError>([&] { find_store_address(make_environment(variables)); });
  };
  EXPECT_NE(error_of({}).find("environment: MASTER_ADDR is not set"), std::string::npos);
  EXPECT_NE(error_of({}).find("set MASTER_ADDR to the host of rank 0"), std::string::npos);
  EXPECT_NE(error_of({{"MASTER_ADDR", "head"}}).find("environment: MASTER_PORT is not set"),
            std::string::npos);
  EXPECT_NE(error_of({{"MASTER_ADDR", "head"}, {"MASTER_PORT", "70000"}})
                .find("MASTER_PORT = \"70000\" is not a number from 0 to 65535"),
            std::string::npos);
}

}  // namespace
}  // namespace cleave
