// One clear message, exit 2, on all ranks, before any training, and no process stays.
#include <gtest/gtest.h>

#include <fstream>

#include "host_process.h"

namespace cleave::test {
namespace {

struct BadInput {
  const char* name;
  std::map<std::string, std::string> changes;
  const char* expected;  // part of the message
  int ranks = 2;
};

void PrintTo(const BadInput& input, std::ostream* out) {
  *out << input.name;
}

class BadInputTest : public testing::TestWithParam<BadInput> {};
INSTANTIATE_TEST_SUITE_P(
    Host, BadInputTest,
    testing::Values(
        BadInput{"MisspeltKey", {{"train.micro_batch_sise", "1"}}, "micro_batch_size"},
        BadInput{"OutOfRange", {{"train.steps", "-1"}}, "-1"},
        BadInput{"TooLarge", {{"train.steps", "100000000000000000000"}}, "run.toml:"},
        BadInput{"NotANumber", {{"optimizer.lr", "nan"}}, "nan"},
        BadInput{"MeshProduct", {{"mesh.data", "3"}}, "data 3 = 3, but there are 2 ranks"},
        BadInput{"UnclaimedAxis", {{"mesh.tensor", "2"}}, "no strategy splits the axis tensor"},
        BadInput{"IndivisibleBatch",
                 {{"train.global_batch_size", "25"}},
                 "= 25 is not a multiple of micro_batch_size 1 x data 2"},
        BadInput{"MissingData", {{"data.path", "\"nowhere.txt\""}}, "nowhere.txt"},
        BadInput{"TooFewTokens", {{"data.sequence_length", "20000"}}, "20000"},
        BadInput{"TokenBeyondVocabulary",
                 {{"model.vocab_size", "101"}},
                 "is not in 0..model.vocab_size - 1 = 100"},
        BadInput{"UnknownStrategy", {{"strategy.ddq.x", "1"}}, "ddq"},
        BadInput{"UnknownBackend", {{"communication.backend", "\"mpl\""}}, "mpl"},
        BadInput{"UnknownOption", {{"strategy.ddp.bucket_byte", "4"}}, "bucket_bytes"},
        BadInput{"MetricsFolderIsAFile", {{"metrics.directory", "\"text.txt\""}}, "text.txt"},
        BadInput{"LocalUnderLauncher",
                 {{"communication.backend", "\"local\""}},
                 "start host without a launcher"}),
    [](const auto& info) { return info.param.name; });

TEST_P(BadInputTest, StopsAllRanksWithOneMessage) {
  const BadInput& input = GetParam();
  const TemporaryFolder folder;
  write_run(folder.path(), input.changes);
  const Outcome run = run_command(
      "mpirun -np " + std::to_string(input.ranks) + " host --config run.toml", folder.path());
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_EQ(run.count("error: "), 1) << run.output;
  EXPECT_TRUE(run.contains(input.expected)) << run.output;
  EXPECT_FALSE(run.contains("step: ")) << run.output;
  EXPECT_LT(run.seconds, 60) << run.output;  // 10 s on an idle machine; this one may not be
}

TEST(BadInput, SameTokenIsNamedInEveryLayout) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"model.vocab_size", "101"}});
  std::string expected;
  for (int ranks : {1, 2, 3}) {
    const Outcome run = run_command(
        "mpirun -np " + std::to_string(ranks) + " host --config run.toml", folder.path());
    EXPECT_EQ(run.exit_code, 2) << run.output;
    const size_t begin = run.output.find("error: ");
    const std::string line = run.output.substr(begin, run.output.find('\n', begin) - begin);
    if (ranks == 1) expected = line;
    EXPECT_EQ(line, expected);
  }
}

TEST(BadInput, MissingConfigNamesTheFile) {
  const TemporaryFolder folder;
  const Outcome run = run_command("mpirun -np 2 host --config none.toml", folder.path());
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_EQ(run.count("none.toml"), 1) << run.output;
}

TEST(BadInput, UnknownVerbAndOptionAreNamed) {
  const TemporaryFolder folder;
  for (const char* command : {"host chekc --config run.toml", "host --confg run.toml", "host"}) {
    const Outcome run = run_command(command, folder.path());
    EXPECT_EQ(run.exit_code, 2) << command << run.output;
    EXPECT_EQ(run.count("error: "), 1) << command << run.output;
  }
}

TEST(BadInput, FailureAtRunTimeEndsAllRanksWithOne) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"optimizer.lr", "1e30"}, {"train.steps", "50"}});
  const Outcome run = run_command("mpirun -np 3 host --config run.toml", folder.path());
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_TRUE(run.contains("the gradient norm is not finite")) << run.output;
  // tools/env and mpirun change no directory: what still runs here would be ours
  const Outcome left = run_command(
      "for p in $(pgrep -x host); do readlink /proc/$p/cwd; done | grep " + folder.path().string(),
      folder.path());
  EXPECT_EQ(left.output, "");
}

TEST(BadInput, KilledRankEndsTheOthers) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"train.steps", "1000000"}});
  const Outcome run = run_command(
      "(mpirun -np 2 host --config run.toml & wait $!) & p=$!; "
      "for i in $(seq 300); do [ -s metrics/metrics.jsonl ] && break; sleep 0.1; done; "
      "pkill -KILL -n -x -P $(pgrep -P $p) host; wait $p",
      folder.path());
  EXPECT_NE(run.exit_code, 0) << run.output;
  EXPECT_LT(run.seconds, 100) << run.output;
}

}  // namespace
}  // namespace cleave::test
