#include "process/process.h"

#include <gtest/gtest.h>

#include "cleave/error.h"
#include "map_environment.h"
#include "process/environment.h"

namespace cleave {
namespace {

using Variables = std::map<std::string, std::string>;

void expect_info(const Variables& variables, const ProcessInfo& expected) {
  const ProcessInfo info = read_process_info(make_environment(variables));
  EXPECT_EQ(info.rank, expected.rank);
  EXPECT_EQ(info.world_size, expected.world_size);
  EXPECT_EQ(info.local_rank, expected.local_rank);
  EXPECT_EQ(info.local_size, expected.local_size);
  EXPECT_EQ(info.launcher, expected.launcher);
}

std::string error_of(const Variables& variables) {
  return message_of<ConfigError>([&] { read_process_info(make_environment(variables)); });
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables kTorchrun = {
    {"RANK", "2"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}};
const Variables kSlurm = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "9"},
                          {"SLURM_NTASKS", "11"}, {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "2"},  {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

TEST(ReadProcessInfo, IsOneRankWithoutALauncher) {
  expect_info({}, {0, 1, 0, 1, ""});
}

TEST(ReadProcessInfo, ReadsOpenMpi) {
  expect_info(kOpenMpi, {5, 8, 1, 4, "Open MPI"});
}

TEST(ReadProcessInfo, ReadsTorchrun) {
  expect_info(kTorchrun, {2, 3, 0, 1, "torchrun"});
}

TEST(ReadProcessInfo, ReadsASlurmStep) {
  expect_info(kSlurm, {9, 11, 1, 3, "Slurm"});
}

TEST(ReadProcessInfo, ReadsPmi) {
  expect_info({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, {1, 2, 1, 2, "PMI"});
  expect_info(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}},
      {1, 2, 0, 1, "PMI"});
}

TEST(ReadProcessInfo, PrefersTheInnermostLauncher) {
  Variables variables = kSlurm;
  variables.insert(kTorchrun.begin(), kTorchrun.end());
  expect_info(variables, {2, 3, 0, 1, "torchrun"});
  variables.insert(kOpenMpi.begin(), kOpenMpi.end());
  expect_info(variables, {5, 8, 1, 4, "Open MPI"});
}

TEST(ReadProcessInfo, IsOneRankInASlurmScriptOutsideAnyStep) {
  Variables script = kSlurm;
  script.erase("SLURM_STEP_ID");
  expect_info(script, {0, 1, 0, 1, ""});
  // batch and interactive steps, as later versions of Slurm number them
  expect_info(with(kSlurm, "SLURM_STEP_ID", "4294967291"), {0, 1, 0, 1, ""});
  expect_info(with(kSlurm, "SLURM_STEP_ID", "4294967290"), {0, 1, 0, 1, ""});
}

TEST(ReadProcessInfo, RefusesARankNotBelowTheSize) {
  EXPECT_EQ(error_of(with(kTorchrun, "RANK", "3")),
            "environment: RANK = 3 is not below WORLD_SIZE = 3; start the ranks through the "
            "launcher");
  EXPECT_NE(error_of(with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_RANK", "4"))
                .find("OMPI_COMM_WORLD_LOCAL_RANK = 4 is not below OMPI_COMM_WORLD_LOCAL_SIZE = 4"),
            std::string::npos);
}

TEST(ReadProcessInfo, RefusesMoreRanksOnAMachineThanInTheRun) {
  EXPECT_NE(error_of(with(kTorchrun, "LOCAL_WORLD_SIZE", "4")).find("LOCAL_WORLD_SIZE = 4"),
            std::string::npos);
}

TEST(ReadProcessInfo, RefusesWhatIsNotANumber) {
  for (const char* value : {"", "x", "1x", "-1", "1.5", " 1", "99999999999999999999"}) {
    EXPECT_NE(error_of(with(kTorchrun, "RANK", value))
                  .find(std::string("RANK = \"") + value + "\" is not a number"),
              std::string::npos)
        << value;
  }
}

TEST(ReadProcessInfo, NamesTheVariableThatIsMissing) {
  Variables variables = kTorchrun;
  variables.erase("WORLD_SIZE");
  EXPECT_NE(error_of(variables).find("environment: WORLD_SIZE is not set"), std::string::npos);
}

TEST(ReadProcessInfo, RefusesATaskListWithoutThisNode) {
  EXPECT_NE(error_of(with(kSlurm, "SLURM_NODEID", "3"))
                .find("SLURM_STEP_TASKS_PER_NODE = \"4(x2),3\" has no entry for SLURM_NODEID = 3"),
            std::string::npos);
}

TEST(SlurmLists, GiveTheTaskCountOfANode) {
  EXPECT_EQ(nth_task_count("4(x2),3", 1), 4);
  EXPECT_EQ(nth_task_count("4(x2),3", 2), 3);
  EXPECT_EQ(nth_task_count("8", 0), 8);
  for (const char* malformed : {"", "x", "4(x", "4(x2", "4(x)", "(x2)", ","}) {
    EXPECT_EQ(nth_task_count(malformed, 0), std::nullopt) << malformed;
  }
}

TEST(SlurmLists, GiveTheFirstHost) {
  EXPECT_EQ(first_host("node01"), "node01");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("node[007-012,15],login"), "node007");
  EXPECT_EQ(first_host("node[3]"), "node3");
  EXPECT_EQ(first_host("rack[1,2]n[05-06]-ib,x"), "rack1n05-ib");
  EXPECT_EQ(first_host("node-a[2-3]"), "node-a2");
  EXPECT_EQ(first_host("node["), "node");
  EXPECT_EQ(first_host(""), "");
}

}  // namespace
}  // namespace cleave
