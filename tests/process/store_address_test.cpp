#include <gtest/gtest.h>

#include <set>

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

/// The address that mpirun's ranks find with `variables` beside the launcher's own.
StoreAddress one_machine_address(const std::string& job,
                                 std::map<std::string, std::string> variables = {}) {
  variables.insert({{"OMPI_COMM_WORLD_SIZE", "5"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "5"},
                    {"PMIX_NAMESPACE", job}});
  return find_store_address(make_environment(std::move(variables)));
}

TEST(StoreAddress, OfMpirunOnOneMachineFollowsFromTheJob) {
  const auto address = one_machine_address("prterun-host-12345@1");
  EXPECT_EQ(address.host, "127.0.0.1");
  EXPECT_TRUE(address.rank_0_serves);
  EXPECT_EQ(address.port, one_machine_address("prterun-host-12345@1").port);
  EXPECT_EQ(address.prefix, one_machine_address("prterun-host-12345@1").prefix);
  std::set<uint16_t> ports;
  for (int job = 0; job < 101; ++job) {
    const auto other = one_machine_address("prterun-host-" + std::to_string(job) + "@1");
    EXPECT_NE(other.prefix, address.prefix);  // its keys are not ours, should the ports meet
    EXPECT_GE(other.port, 15000);
    EXPECT_LT(other.port, 30000);
    ports.insert(other.port);
  }
  EXPECT_GT(ports.size(), 95u);
}

TEST(StoreAddress, OfMpirunOnOneMachineYieldsToWhatIsSet) {
  EXPECT_EQ(one_machine_address("job", {{"MASTER_PORT", "4001"}}).port, 4001);
  EXPECT_EQ(one_machine_address("job", {{"MASTER_PORT", "4001"}}).host, "127.0.0.1");
  const auto address =
      one_machine_address("job", {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "4001"}});
  EXPECT_EQ(address.host, "head");
  EXPECT_EQ(address.prefix, "cleave/0/");
  const auto slurm = one_machine_address(
      "job", {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "n3"}});
  EXPECT_EQ(slurm.host, "n3");
}

TEST(StoreAddress, SaysWhatToSet) {
  const auto error_of = [](std::map<std::string, std::string> variables) {
    return message_of<ConfigError>([&] { find_store_address(make_environment(variables)); });
  };
  EXPECT_NE(error_of({}).find("environment: MASTER_ADDR is not set"), std::string::npos);
  EXPECT_NE(error_of({}).find("set MASTER_ADDR to the host of rank 0"), std::string::npos);
  // of several machines mpirun does not say which has rank 0
  EXPECT_NE(error_of({{"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"PMIX_NAMESPACE", "job"}})
                .find("environment: MASTER_ADDR is not set"),
            std::string::npos);
  EXPECT_NE(error_of({{"MASTER_ADDR", "head"}}).find("environment: MASTER_PORT is not set"),
            std::string::npos);
  EXPECT_NE(error_of({{"MASTER_ADDR", "head"}, {"MASTER_PORT", "70000"}})
                .find("MASTER_PORT = \"70000\" is not a number from 0 to 65535"),
            std::string::npos);
}

}  // namespace
}  // namespace cleave
