// host verify: N ranks against one, by name.
#include <gtest/gtest.h>

#include "host_process.h"

namespace cleave::test {
namespace {

TEST(Verify, PassesForALayoutThatTrainsTheSameModel) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"model.tie_word_embeddings", "true"}});
  const Outcome run = run_command("mpirun -np 3 host verify --config run.toml", folder.path());
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.contains("data 3 x tensor 1 against one rank, 10 steps")) << run.output;
  EXPECT_FALSE(run.contains("DIFFERS")) << run.output;
}

TEST(Verify, NamesTheParameterWhoseGradientIsScaled) {
  const TemporaryFolder folder;
  write_run(folder.path(),
            {{"strategy.ddp.bucket_bytes", ""}, {"strategy.faulty.hook", "\"scale\""}});
  const Outcome run =
      run_command("mpirun -np 2 host verify --config run.toml --steps 2", folder.path());
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_TRUE(run.contains(
      "gradients of step 1: the first that differs is model.layers.1.mlp.up_proj.weight"))
      << run.output;
  EXPECT_EQ(run.count("error: "), 0) << run.output;
}

TEST(Verify, RunsOverThreadsToo) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"communication.backend", "\"local\""}, {"mesh.data", "4"}});
  const Outcome run = run_command("host verify --config run.toml --steps 3", folder.path());
  EXPECT_EQ(run.exit_code, 0) << run.output;
}

TEST(Verify, RefusesARunThatChangesGradientsOnTheirWay) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"communication.backend", "\"local\""},
                            {"mesh.data", "2"},
                            {"strategy.compress.wire", "\"bf16\""}});
  const Outcome run = run_command("host verify --config run.toml --steps 1", folder.path());
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_TRUE(run.contains("[strategy.compress] changes gradients on their way")) << run.output;
}

}  // namespace
}  // namespace cleave::test
