// What the nccl plugin refuses before anything is sent, and how it says so.
#include <cstdlib>

#include "fake_nccl/fake.h"
#include "nccl_ranks.h"
#include "thread_bootstrap.h"

namespace cleave::testing {
namespace {

class NcclCreate : public ::testing::Test {
 protected:
  NcclCreate() { fake::reset(); }

  /// Each rank's refusal; "" where it got a communicator.
  static std::vector<std::string> create(const fake::Settings& settings, int ranks) {
    fake::set(settings);
    std::vector<std::string> errors(static_cast<size_t>(ranks));
    on_threads(ranks, [&](const cleave_bootstrap& bootstrap) {
      cleave_communicator* created =
          create_nccl(bootstrap, errors[static_cast<size_t>(bootstrap.rank)]);
      if (created) created->api->destroy(created);
    });
    return errors;
  }
};

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

TEST_F(NcclCreate, RefusesAMachineWithoutAGpu) {
  fake::Settings settings;
  settings.device_count_error = cudaErrorNoDevice;
  const std::string error = create(settings, 1).front();
  expect_in(error, "no GPU can be used here: no CUDA-capable device is detected");
  expect_in(error, "backend = \"mpi\"");
}

TEST_F(NcclCreate, RefusesTwoRanksOnOneGpuAndNamesBoth) {
  fake::Settings settings;
  settings.num_devices = 2;
  for (const std::string& error : create(settings, 3)) {
    expect_in(error, "ranks 0 and 2 have one GPU, 0000:10:00.0 of host ");
    expect_in(error, "as many ranks on a machine as it has GPUs");
  }
}

TEST_F(NcclCreate, RefusesTwoNamesOfOneGpu) {
  fake::Settings settings;
  settings.bus_ids = {"0000:17:00.0", "0000:18:00.0", "0000:18:00.0"};
  settings.num_devices = 3;
  for (const std::string& error : create(settings, 3))
    expect_in(error, "ranks 1 and 2 have one GPU, 0000:18:00.0");
}

TEST_F(NcclCreate, RefusesAnOldLibrary) {
  fake::Settings settings;
  settings.version = 22703;
  const std::string error = create(settings, 1).front();
  expect_in(error, "the NCCL library found is 2.27.3");
  expect_in(error, "needs 2.28.0");
}

TEST_F(NcclCreate, RefusalOfInitNamesNcclsReason) {
  fake::Settings settings;
  settings.init_result = ncclSystemError;
  for (const std::string& error : create(settings, 2))
    expect_in(error, "ncclCommInitRankConfig: fake NCCL error: the fake was told to fail");
}

TEST_F(NcclCreate, RefusesAnInterfaceThatIsNotThere) {
  KeyValueStore store;
  std::string error;
  EXPECT_EQ(create_nccl(thread_bootstrap(store, 0, 1), error, "no-such-interface0"), nullptr);
  expect_in(error, "socket_interface = \"no-such-interface0\" is not an interface");
  expect_in(error, "lo");
}

TEST_F(NcclCreate, InterfaceReachesNcclExactly) {
  KeyValueStore store;
  std::string error;
  cleave_communicator* created = create_nccl(thread_bootstrap(store, 0, 1), error, "lo");
  ASSERT_NE(created, nullptr) << error;
  created->api->destroy(created);
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "=lo");
  unsetenv("NCCL_SOCKET_IFNAME");
}

TEST_F(NcclCreate, RefusesAnInterfaceBesideAnotherInTheEnvironment) {
  setenv("NCCL_SOCKET_IFNAME", "eth7", 1);
  KeyValueStore store;
  std::string error;
  EXPECT_EQ(create_nccl(thread_bootstrap(store, 0, 1), error, "lo"), nullptr);
  expect_in(error, "NCCL_SOCKET_IFNAME=eth7 is set");
  unsetenv("NCCL_SOCKET_IFNAME");
}

TEST_F(NcclCreate, RefusesAFixedOrderOfSumsOverMoreThanTwoRanks) {
  KeyValueStore store;
  std::string error;
  cleave_bootstrap bootstrap = thread_bootstrap(store, 0, 3);
  bootstrap.deterministic = 1;
  EXPECT_EQ(create_nccl(bootstrap, error), nullptr);
  expect_in(error, "train.deterministic");
}

TEST_F(NcclCreate, RanksMayCreateSeveralCommunicators) {
  on_threads(2, [](const cleave_bootstrap& bootstrap) {
    std::string error;
    cleave_communicator* first = create_nccl(bootstrap, error);
    ASSERT_NE(first, nullptr) << error;
    cleave_communicator* second = create_nccl(bootstrap, error);
    ASSERT_NE(second, nullptr) << error;
    Communicator a(first), b(second);
    b.barrier();
    a.barrier();
  });
}

TEST_F(NcclCreate, IdentityNamesNcclAndCuda) {
  const cleave_abi& abi = cleave_plugin_entry_v1()->identity.abi;
  EXPECT_STREQ(abi.nccl_version, "2.28.9");
  EXPECT_STRNE(abi.cuda_version, "");
}

}  // namespace
}  // namespace cleave::testing
