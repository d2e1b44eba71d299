#include <gtest/gtest.h>

#include "support.h"

namespace cleave {
namespace {

std::string error_with(const std::string& assignment) {
  return error_of(complete_run(), {assignment});
}

TEST(Override, ReplacesAndAddsValues) {
  const RunConfig config = load(
      complete_run(), {"train.steps=99", "mesh.tensor=2", "optimizer.lr = 1", "train.steps=7"});
  EXPECT_EQ(config.train.steps, 7);
  EXPECT_EQ(config.mesh.at("tensor"), 2);
  EXPECT_EQ(config.optimizer.lr, 1.0);
}

TEST(Override, TakesWhatIsNotTomlAsText) {
  EXPECT_EQ(load(complete_run(), {"data.path=/tmp/a b=c#d"}).data.path, "/tmp/a b=c#d");
  EXPECT_EQ(load(complete_run(), {"data.path=\"x\""}).data.path, "x");
  EXPECT_EQ(load(complete_run(), {"data.path=a\nseed=3"}).data.path, "a\nseed=3");
  EXPECT_EQ(load(complete_run(), {"communication.backend=local"}).communication.backend.name,
            "local");
}

TEST(Override, CreatesTables) {
  Tables tables = complete_run();
  tables.erase("mesh");
  const RunConfig config =
      load(tables, {"mesh.data=2", "strategy.ddp.bucket_bytes=1000", "strategy.zero={}",
                    "communication.mpi={algorithm=\"ring\"}"});
  EXPECT_EQ(config.mesh.at("data"), 2);
  ASSERT_EQ(config.strategies.size(), 2u);
  EXPECT_EQ(config.strategies[0].name, "ddp");
  EXPECT_EQ(config.strategies[0].origin.text, "--set strategy.ddp.bucket_bytes=1000");
  EXPECT_EQ(config.strategies[0].options.at(0).toml, "1000");
  EXPECT_EQ(config.strategies[1].name, "zero");
  EXPECT_TRUE(config.strategies[1].options.empty());
  EXPECT_EQ(config.communication.backend.options.at(0).toml, "\"ring\"");
}

TEST(Override, ReplacesAWholeTable) {
  const std::string text = to_text(complete_run()) + "[strategy.ddp]\na = 1\nb = 2\n";
  const RunConfig config = load(text, {"strategy.ddp={b=3}"});
  ASSERT_EQ(config.strategies.at(0).options.size(), 1u);
  EXPECT_EQ(config.strategies[0].options[0].toml, "3");
}

TEST(Override, MakesAWrongValueInTheFileRight) {
  Tables tables = complete_run();
  tables["train"]["steps"] = "0";
  EXPECT_EQ(load(tables, {"train.steps=3"}).train.steps, 3);
}

TEST(Override, NamesItselfInErrors) {
  EXPECT_EQ(
      error_with("mesh.data=abc"),
      "--set mesh.data=abc: mesh.data = \"abc\" is a string; expected an integer from 1 to 65536");
  for (const std::string assignment : {"train.stepz=1",
                                       "train.steps=0",
                                       "trian.steps=1",
                                       "model.path=x",
                                       "strategy=1",
                                       "train=3",
                                       "train.steps=99999999999999999999",
                                       "train.steps=",
                                       "train.steps.x=1",
                                       "train.steps={a=1}",
                                       "strategy.ddp=true",
                                       "strategy.ddp.x.y=1",
                                       "strategy.\"a b\".c=1",
                                       "communication.nccl.x=1",
                                       "communication.tensor.backend=4",
                                       "communication.tensor.x=1",
                                       "communication.mpi=3",
                                       "data.path=2024",
                                       "checkpoint.keep=1",
                                       "metrics.trace=1979-05-27",
                                       "mesh.\"\"=2",
                                       "communication.backend=\"\""})
    EXPECT_EQ(error_with(assignment).find("--set " + assignment + ": "), 0u)
        << assignment << ": " << error_with(assignment);
}

TEST(Override, RefusesWhatIsNoAssignment) {
  for (const std::string assignment :
       {"", "=", "=3", "train.steps", "steps=3", "train.=3", ".steps=3", "train..steps=3",
        "train steps=3", "a.b\nc.d=1", "[train]\nsteps=1"}) {
    const std::string error = error_with(assignment);
    EXPECT_EQ(error.find("--set " + assignment.substr(0, assignment.find('\n'))), 0u) << error;
    EXPECT_NE(error.find("; write --set table.key=value"), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace cleave
