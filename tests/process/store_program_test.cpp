// The real program on a backend that leaves to the key-value store what the host tells other ranks.
#include <gtest/gtest.h>

#include "host/host_process.h"

namespace cleave::test {
namespace {

TEST(StoreProgram, MpirunOnOneMachineNeedsNoAddress) {
  const TemporaryFolder folder;
  const auto losses_of = [&](const std::string& backend) {
    write_run(folder.path(),
              {{"communication.backend", "\"" + backend + "\""}, {"train.steps", "3"}});
    const Outcome run = run_command(
        "CLEAVE_PLUGIN_PATH=" NARROW_FOLDER " mpirun -np 3 host --config run.toml", folder.path());
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return metric(folder.path(), "loss");
  };
  const auto losses = losses_of("mpi-narrow");
  EXPECT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses, losses_of("mpi"));
}

}  // namespace
}  // namespace cleave::test
