// The files of configs/: each one plans, and each that fits here trains the same model.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "host_process.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// The number of ranks that the file's head gives.
std::string ranks_of(const fs::path& config) {
  const std::string text = content(config), command = "mpirun -np ";
  const size_t found = text.find(command);
  EXPECT_NE(found, std::string::npos) << config << " does not say how it is started";
  return text.substr(found + command.size(), 1);
}

class Configs : public testing::Test {
 protected:
  Configs() {
    fs::create_directories(folder_.path() / "data");
    std::ofstream text(folder_.path() / "data" / "shakespeare.txt");
    uint64_t state = 1;
    for (int i = 0; i < 100000; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      text.put(static_cast<char>(state >> 40));
    }
  }

  // Loss of the second step.
  double loss_of(const fs::path& config) {
    const fs::path out = folder_.path() / config.stem();
    const Outcome run = run_command(
        "mpirun -np " + ranks_of(config) + " host --config " + config.string() +
            " --set train.steps=2 --set data.sequence_length=32 --set metrics.directory=" +
            (out / "metrics").string(),
        folder_.path());
    EXPECT_EQ(run.exit_code, 0) << config << run.output;
    const auto losses = metric(out, "loss");
    return losses.size() == 2 ? std::stod(losses[1]) : NAN;
  }

  TemporaryFolder folder_;
};

TEST_F(Configs, AllPlan) {
  for (const auto& entry : fs::directory_iterator(CLEAVE_SOURCE "/configs")) {
    if (entry.path().filename() == "compare.toml") continue;  // is no run: compare_test.cpp
    const Outcome run = run_command(
        "host check --config " + entry.path().string() + " --world-size " + ranks_of(entry.path()),
        folder_.path());
    EXPECT_EQ(run.exit_code, 0) << entry.path() << run.output;
  }
}

TEST_F(Configs, AllTrainTheSameModel) {
  const double expected = loss_of(CLEAVE_SOURCE "/configs/shakespeare.toml");
  for (const auto& entry : fs::directory_iterator(CLEAVE_SOURCE "/configs")) {
    const std::string text = content(entry.path());
    if (text.find("hidden_size = 256") == std::string::npos) continue;  // too large for here
    const bool rounds = text.find("bfloat16") != std::string::npos ||
                        text.find("[strategy.compress]") != std::string::npos;
    EXPECT_NEAR(loss_of(entry.path()) / expected, 1.0, rounds ? 1e-2 : 1e-5) << entry.path();
  }
}

}  // namespace
}  // namespace cleave::test
