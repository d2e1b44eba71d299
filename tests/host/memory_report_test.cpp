// What a user is told of memory: in the header, in metrics and summary, and when there is none
// left.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "host_process.h"

namespace cleave::test {
namespace {

const std::vector<std::string> kCategories = {
    "parameters", "master", "gradients", "optimizer", "activations", "communication", "other"};

// From the line that begins with `first` to the one that begins with `last`.
std::string lines_between(const std::string& text, const std::string& first,
                          const std::string& last) {
  const size_t begin = text.find("\n" + first), end = text.find("\n" + last, begin);
  if (begin == std::string::npos || end == std::string::npos) return "";
  return text.substr(begin + 1, text.find('\n', end + 1) - begin);
}

std::map<std::string, std::string> sharded(const std::string& dtype) {
  return {{"strategy.ddp.bucket_bytes", ""},
          {"strategy.zero.stage", "3"},
          {"train.dtype", '"' + dtype + '"'},
          {"train.steps", "2"}};
}

TEST(MemoryHeader, IsTheSameInARunAndInCheck) {
  const TemporaryFolder folder;
  for (const char* dtype : {"float32", "bfloat16"}) {
    write_run(folder.path(), sharded(dtype));
    const Outcome run = run_command("mpirun -np 2 host --config run.toml", folder.path());
    const Outcome check = run_command("host check --config run.toml --world-size 2", folder.path());
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const std::string text = lines_between(check.output, "dtypes: ", "  total ");
    for (const std::string& category : kCategories)
      EXPECT_NE(text.find("\n  " + category + " "), std::string::npos) << check.output;
    EXPECT_EQ(lines_between(run.output, "dtypes: ", "  total "), text);
  }
}

TEST(MemoryHeader, StatesDtypesOfWhatIsShardedInBfloat16) {
  const TemporaryFolder folder;
  write_run(folder.path(), sharded("bfloat16"));
  const Outcome check = run_command("host check --config run.toml --world-size 2", folder.path());
  EXPECT_TRUE(
      check.contains("dtypes: parameter bfloat16, gathered in bfloat16, master float32, "
                     "gradient float32, reduction float32, optimizer state float32\n"))
      << check.output;
}

TEST(MemoryHeader, OfSevenBillionParametersNeedsNoneOfTheirMemory) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "data");
  std::ofstream(folder.path() / "data" / "shakespeare.txt") << std::string(10000, 'a');
  const Outcome check =
      run_command("ulimit -v 2000000; host check --world-size 4 --config " CLEAVE_SOURCE
                  "/configs/qwen2.5-7b-fsdp.toml",
                  folder.path());
  ASSERT_EQ(check.exit_code, 0) << check.output;
  EXPECT_TRUE(check.contains("7615.62 M parameters")) << check.output;
  EXPECT_TRUE(check.contains("  optimizer        14525.64  ")) << check.output;  // 8 P/N
  EXPECT_LT(check.seconds, 60);
}

TEST(MemoryMetrics, HoldEveryCategoryOfEveryRank) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"train.steps", "2"}});
  const Outcome run = run_command("mpirun -np 3 host --config run.toml", folder.path());
  ASSERT_EQ(run.exit_code, 0) << run.output;
  std::ifstream file(folder.path() / "metrics" / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line);
    const auto& memory = record.at("memory_mib");
    ASSERT_EQ(memory.size(), kCategories.size());
    for (size_t rank = 0; rank < 3; ++rank) {
      double sum = 0;
      for (const std::string& category : kCategories) {
        const double mib = memory.at(category).at(rank);
        EXPECT_LE(mib, record.at("peak_memory_mib").at(rank)) << category;
        sum += mib;
      }
      EXPECT_GE(sum, record.at("peak_memory_mib").at(rank));
    }
    EXPECT_GT(memory.at("activations").at(2), 0.0);
  }
  for (const std::string& category : kCategories)
    EXPECT_TRUE(run.contains("\n               " + category + " ")) << category << run.output;
  EXPECT_TRUE(run.contains("predicted  measured min  measured max")) << run.output;
}

// 1.2 GB of activations a layer, in an address space of 2 GB.
std::map<std::string, std::string> too_large(const std::string& backend) {
  return {{"model.hidden_size", "96"},        {"model.intermediate_size", "160"},
          {"data.sequence_length", "256"},    {"train.global_batch_size", "1024"},
          {"train.micro_batch_size", "1024"}, {"communication.backend", '"' + backend + '"'}};
}

TEST(OutOfMemory, EndsTheRunWithATableAndWhatToChange) {
  const TemporaryFolder folder;
  write_run(folder.path(), too_large("local"));
  const Outcome run = run_command("ulimit -v 2000000; host --config run.toml", folder.path());
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_EQ(run.count("error: "), 1) << run.output;
  EXPECT_TRUE(run.contains("error: rank 0: out of memory: ")) << run.output;
  EXPECT_TRUE(run.contains(" MiB more for activations can't be had")) << run.output;
  const std::string table =
      lines_between(run.output, "  MiB             predicted      in use        peak", "  total ");
  for (const std::string& category : kCategories)
    EXPECT_NE(table.find("\n  " + category + " "), std::string::npos) << run.output;
  EXPECT_TRUE(run.contains("use a smaller train.micro_batch_size, a strategy that recomputes"))
      << run.output;
  EXPECT_LT(run.seconds, 100);
}

TEST(OutOfMemory, NamesTheRankThatHasTooLittle) {
  const TemporaryFolder folder;
  auto changes = too_large("mpi");
  changes["train.global_batch_size"] = "512";
  changes["train.micro_batch_size"] = "256";
  write_run(folder.path(), changes);
  const Outcome run = run_command(
      "mpirun -np 1 host --config run.toml : "
      "-np 1 bash -c \"ulimit -v 1200000; exec host --config run.toml\"",
      folder.path());
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_EQ(run.count("out of memory"), 1) << run.output;
  EXPECT_TRUE(run.contains("rank 1 of 2: error: rank 1: out of memory")) << run.output;
}

}  // namespace
}  // namespace cleave::test
