// The program as a user starts it: mpirun -np N host --config run.toml.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "host_process.h"

namespace cleave::test {
namespace {

std::string mpirun(int ranks, const std::string& rest = "") {
  return "mpirun -np " + std::to_string(ranks) + " host --config run.toml" + rest;
}

TEST(Train, LossesOfOneToFourRanksAgree) {
  const TemporaryFolder folder;
  write_run(folder.path());
  std::vector<std::vector<std::string>> losses, norms;
  for (int ranks : {1, 2, 3, 4}) {
    const Outcome run = run_command(mpirun(ranks), folder.path());
    ASSERT_EQ(run.exit_code, 0) << run.output;
    losses.push_back(metric(folder.path(), "loss"));
    norms.push_back(metric(folder.path(), "grad_norm"));
    ASSERT_EQ(losses.back().size(), 20u);
  }
  for (size_t layout = 1; layout < losses.size(); ++layout)
    for (size_t step = 0; step < 20; ++step) {
      EXPECT_NEAR(std::stod(losses[layout][step]) / std::stod(losses[0][step]), 1.0, 1e-5);
      EXPECT_NEAR(std::stod(norms[layout][step]) / std::stod(norms[0][step]), 1.0, 1e-5);
    }
}

TEST(Train, TwoRunsOfOneLayoutAreBitwiseEqual) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"train.micro_batch_size", "3"}});
  std::vector<std::vector<std::string>> seen;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(run_command(mpirun(2), folder.path()).exit_code, 0);
    seen.push_back(metric(folder.path(), "loss"));
    seen.push_back(metric(folder.path(), "grad_norm"));
  }
  EXPECT_EQ(seen[0], seen[2]);
  EXPECT_EQ(seen[1], seen[3]);
}

TEST(Train, EightRanksRunTheLiteralCommand) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"train.steps", "2"}});
  const Outcome run = run_command("mpirun -np 8 host --config run.toml", folder.path());
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.contains("data 8")) << run.output;
}

TEST(Train, ThreadsOfOneProcessGiveTheSameLosses) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"communication.backend", "\"local\""}, {"mesh.data", "3"}});
  const Outcome threads = run_command("host --config run.toml", folder.path());
  ASSERT_EQ(threads.exit_code, 0) << threads.output;
  const auto losses = metric(folder.path(), "loss");
  write_run(folder.path());
  ASSERT_EQ(run_command(mpirun(3), folder.path()).exit_code, 0);
  const auto expected = metric(folder.path(), "loss");
  for (size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(std::stod(losses[step]) / std::stod(expected[step]), 1.0, 1e-6);
}

TEST(Train, MetricsHoldWhatOtherProgramsRead) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"train.steps", "3"}});
  ASSERT_EQ(run_command(mpirun(2), folder.path()).exit_code, 0);
  std::ifstream file(folder.path() / "metrics" / "metrics.jsonl");
  int64_t step = 0;
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line);
    EXPECT_EQ(record["step"], ++step);
    for (const char* key : {"loss", "grad_norm", "lr", "valid_tokens", "step_ms", "tokens_per_s",
                            "exposed_communication_ms", "data_ms"})
      EXPECT_TRUE(record.at(key).is_number()) << key;
    for (const char* key : {"peak_memory_mib", "resident_mib"})
      EXPECT_EQ(record.at(key).size(), 2u) << key;
  }
  EXPECT_EQ(step, 3);
}

TEST(Train, FirstBucketIsReducedWhileBackwardRuns) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"train.steps", "2"}, {"metrics.trace", "true"}});
  ASSERT_EQ(run_command(mpirun(2), folder.path()).exit_code, 0);
  std::ifstream file(folder.path() / "metrics" / "trace.rank0.json");
  const auto trace = nlohmann::json::parse(file);
  double first_reduction = 1e300, first_unit_backward = 0;
  for (const auto& event : trace.at("traceEvents")) {
    const std::string name = event.value("name", "");
    if (event.value("ph", "") != "X") continue;
    if (name == "backward embedding #11" && first_unit_backward == 0)
      first_unit_backward = event.at("ts");
    if (name == "data.all_reduce" && event.at("args").at("bytes") > 1000)
      first_reduction = std::min<double>(first_reduction, event.at("ts"));
  }
  ASSERT_GT(first_unit_backward, 0);
  EXPECT_LT(first_reduction, first_unit_backward);
}

TEST(Train, LearnsTheText) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"train.steps", "60"},
                            {"optimizer.lr", "1e-2"},
                            {"optimizer.epsilon", "1e-8"},
                            {"train.micro_batch_size", "6"}});
  ASSERT_EQ(run_command(mpirun(2), folder.path()).exit_code, 0);
  const auto losses = metric(folder.path(), "loss");
  EXPECT_LT(std::stod(losses.back()), std::stod(losses.front()) - 0.1);
}

}  // namespace
}  // namespace cleave::test
