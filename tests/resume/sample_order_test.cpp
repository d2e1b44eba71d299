// No sample is lost or repeated, and each step reads the same ones, whatever the number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "training.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

struct Read {
  int64_t step;
  int64_t sequence;
  int64_t sample;
  auto operator<=>(const Read&) const = default;
};

void PrintTo(const Read& read, std::ostream* out) {
  *out << "step " << read.step << ": " << read.sequence << " is sample " << read.sample;
}

// Of all ranks' logs.
std::vector<Read> sample_log(const RunConfig& config) {
  std::vector<Read> all;
  for (const auto& entry : fs::directory_iterator(config.metrics.directory)) {
    if (!entry.path().filename().string().starts_with("samples.")) continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      const auto json = nlohmann::json::parse(line);
      const int64_t first = json.at("sequences").at(0), count = json.at("sequences").at(1);
      const std::vector<int64_t> samples = json.at("samples");
      EXPECT_EQ(std::ssize(samples), count);
      for (int64_t i = 0; i < count; ++i)
        all.push_back({json.at("step"), first + i, samples.at(static_cast<size_t>(i))});
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

RunConfig config_of(const TemporaryFolder& folder, const std::string& name) {
  RunConfig config = resume_config(folder, name);
  config.metrics.samples = true;
  config.train.micro_batch_size = 1;
  return config;
}

std::vector<int64_t> sorted_sequences(const std::vector<Read>& log) {
  std::vector<int64_t> sequences;
  for (const Read& read : log) sequences.push_back(read.sequence);
  std::sort(sequences.begin(), sequences.end());
  return sequences;
}

void expect_log_of_straight_run(const TemporaryFolder& folder, const RunConfig& config,
                                int64_t steps) {
  const RunConfig straight = config_of(folder, "straight");
  train_until(steps, straight, one_rank());
  const std::vector<Read> log = sample_log(config);
  std::vector<int64_t> all(static_cast<size_t>(steps * 12));
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted_sequences(log), all);
  EXPECT_EQ(log, sample_log(straight));
}

TEST(SampleOrder, StaysWhenTheNumberOfRanksChangesInsideAnEpoch) {
  const TemporaryFolder folder;
  const RunConfig config = config_of(folder, "parts");
  train_until(2, config, zero(1, 2));
  train_until(4, config, fsdp(4));
  train_until(5, config, one_rank());
  train_until(7, config, ddp(3));
  train_until(8, config, three_axes(zero(1, 2)));
  train_until(9, config, pipeline(2));
  expect_log_of_straight_run(folder, config, 9);
}

TEST(SampleOrder, OfEachRankGoesOnWhereItWas) {
  const TemporaryFolder folder;
  for (const Layout& layout : {ddp(3), three_axes(zero(1, 2))}) {
    const RunConfig parts = config_of(folder, "parts of " + layout.name);
    const RunConfig straight = config_of(folder, "straight " + layout.name);
    train_until(5, parts, layout);  // in the second epoch
    train_until(8, parts, layout);
    train_until(8, straight, layout);
    for (const auto& [name, text] : read_files(straight.metrics.directory))
      if (name.starts_with("samples.")) {
        EXPECT_FALSE(text.empty()) << name;
        EXPECT_EQ(read_file(parts.metrics.directory / name), text) << layout.name << ", " << name;
      }
  }
}

TEST(SampleOrder, IsAPermutationOfEachEpochAndAnotherInTheNext) {
  const TemporaryFolder folder;
  const RunConfig config = config_of(folder, "straight");
  train_until(7, config, one_rank());
  std::map<int64_t, std::vector<int64_t>> epochs;
  for (const Read& read : sample_log(config)) epochs[read.sequence / 37].push_back(read.sample);
  EXPECT_NE(epochs[0], epochs[1]);
  std::vector<int64_t> all(37);
  std::iota(all.begin(), all.end(), 0);
  for (const int64_t epoch : {0, 1}) {
    std::sort(epochs[epoch].begin(), epochs[epoch].end());
    EXPECT_EQ(epochs[epoch], all) << epoch;
  }
}

// The steps after the last checkpoint are run again, by other ranks.
TEST(SampleOrder, DropsWhatAKilledRunOnMoreRanksHadReadSince) {
  const TemporaryFolder folder;
  RunConfig config = config_of(folder, "killed");
  config.checkpoint.every_steps = 3;
  train_until(5, config, fsdp(4));
  fs::remove_all(checkpoint_of(config, 5));
  train_until(6, config, ddp(2));
  expect_log_of_straight_run(folder, config, 6);
}

}  // namespace
}  // namespace cleave::test
