// host bench: what a user reads, and whether it tells right from wrong.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "host_process.h"

namespace cleave::test {
namespace {

nlohmann::json read_json(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return nlohmann::json::parse(stream);
}

const std::set<std::string> kOps = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                    "all_to_all", "send_recv",      "barrier"};

/// Every op at every size once, right, named and timed.
void expect_whole(const nlohmann::json& result, int ranks, size_t sizes) {
  std::set<std::string> ops;
  for (const auto& row : result.at("rows")) {
    SCOPED_TRACE(row.dump());
    ops.insert(row.at("op"));
    EXPECT_EQ(row.at("wrong"), 0);
    EXPECT_EQ(row.at("ranks"), ranks);
    EXPECT_EQ(row.at("dtype"), result.at("dtype"));
    EXPECT_FALSE(row.at("algorithm").get<std::string>().empty());
    EXPECT_GT(row.at("median_us"), 0.0);
    EXPECT_LE(row.at("p25_us"), row.at("median_us"));
    EXPECT_LE(row.at("median_us"), row.at("p75_us"));
    EXPECT_GE(row.at("repetitions"), 10);
    EXPECT_GE(row.at("bytes"), row.at("asked_bytes"));
    EXPECT_EQ(row.at("network_formula_bytes"), 0);  // one machine
    EXPECT_EQ(row.at("algbw_gb_s") > 0.0, row.at("op") != "barrier");
  }
  EXPECT_EQ(ops, kOps);
  EXPECT_EQ(result.at("rows").size(), (kOps.size() - 1) * sizes + 1);
  EXPECT_FALSE(result.at("path").get<std::string>().empty());
  EXPECT_TRUE(result.at("versions").contains("LibTorch"));
}

const nlohmann::json& find_row(const nlohmann::json& result, const std::string& op,
                               int64_t asked_bytes) {
  for (const auto& row : result.at("rows"))
    if (row.at("op") == op && row.at("asked_bytes") == asked_bytes) return row;
  throw std::runtime_error("no row " + op + " of " + std::to_string(asked_bytes));
}

TEST(Bench, MeasuresEveryOperationUnderMpirun) {
  for (const int ranks : {2, 3}) {
    const TemporaryFolder folder;
    const Outcome run = run_command("mpirun -np " + std::to_string(ranks) +
                                        " host bench --bytes 10,4099,100000 --json bench.json"
                                        " --plot bench.svg",
                                    folder.path());
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const nlohmann::json result = read_json(folder.path() / "bench.json");
    expect_whole(result, ranks, 3);
    EXPECT_EQ(result.at("backend"), "mpi");
    EXPECT_EQ(result.at("nodes"), 1);
    EXPECT_EQ(find_row(result, "all_reduce", 4099).at("algorithm"), "shared-memory");
    EXPECT_EQ(find_row(result, "all_reduce", 100000).at("algorithm"), "shared-memory");
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "bench.svg"));
    EXPECT_TRUE(run.contains("all_reduce: time = ")) << run.output;
  }
}

TEST(Bench, RunsOverThreadsInEveryDtype) {
  for (const std::string dtype : {"bfloat16", "int64", "uint8"}) {
    const TemporaryFolder folder;
    const Outcome run =
        run_command("host bench --ranks 3 --bytes 1,70001 --dtype " + dtype + " --json bench.json",
                    folder.path());
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const nlohmann::json result = read_json(folder.path() / "bench.json");
    expect_whole(result, 3, 2);
    EXPECT_EQ(result.at("backend"), "local");
    EXPECT_EQ(result.at("dtype"), dtype);
  }
}

TEST(Bench, RoundsSizesUpToEqualBlocksAndSaysSo) {
  const TemporaryFolder folder;
  const Outcome run = run_command(
      "host bench --ranks 3 --bytes 4097 --op all_reduce,reduce_scatter --json bench.json",
      folder.path());
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json result = read_json(folder.path() / "bench.json");
  EXPECT_EQ(find_row(result, "all_reduce", 4097).at("bytes"), 4100);
  EXPECT_EQ(find_row(result, "reduce_scatter", 4097).at("bytes"), 4104);
  EXPECT_EQ(run.count("(4097 asked for)"), 2) << run.output;
}

TEST(Bench, BusBandwidthAndSentBytesFollowTheFactors) {
  const TemporaryFolder folder;
  const Outcome run =
      run_command("host bench --ranks 4 --bytes 4096 --json bench.json", folder.path());
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json result = read_json(folder.path() / "bench.json");
  const auto expect_factor = [&](const std::string& op, double factor, double sent) {
    const auto& row = find_row(result, op, 4096);
    EXPECT_NEAR(row.at("busbw_gb_s").get<double>() / row.at("algbw_gb_s").get<double>(), factor,
                1e-9)
        << op;
    EXPECT_EQ(row.at("wire_bytes"), sent) << op;
  };
  expect_factor("all_reduce", 1.5, 4 * 6144.0);
  expect_factor("reduce_scatter", 0.75, 4 * 3072.0);
  expect_factor("all_gather", 0.75, 4 * 3072.0);
  expect_factor("all_to_all", 0.75, 4 * 3072.0);
  expect_factor("broadcast", 1, 3 * 4096.0);
  expect_factor("send_recv", 1, 4 * 4096.0);
}

TEST(Bench, TakesTheBackendsOptions) {
  const TemporaryFolder folder;
  const Outcome run = run_command(
      "mpirun -np 2 host bench --op all_reduce --bytes 100000 --json bench.json "
      "--set communication.mpi.algorithm=ring --set train.deterministic=false",
      folder.path());
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(find_row(read_json(folder.path() / "bench.json"), "all_reduce", 100000).at("algorithm"),
            "ring");
}

TEST(Bench, OneRankIsMeasuredWithoutALauncher) {
  const TemporaryFolder folder;
  const Outcome run = run_command("host bench --bytes 64", folder.path());
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.contains("1 ranks on 1 node")) << run.output;
  EXPECT_FALSE(run.contains("send_recv")) << run.output;
}

TEST(Bench, ResultsThatCannotBeWrittenAreRefusedBeforeAnythingIsMeasured) {
  const TemporaryFolder folder;
  const std::string bench = "host bench --ranks 2 --op barrier ";
  for (const auto& [files, reason] : {std::pair{"--json a --plot a", "both name a; give two files"},
                                      {"--json .", "not a file"},
                                      {"--plot /dev/null", "not a file"}}) {
    const Outcome run = run_command(bench + files, folder.path());
    EXPECT_EQ(run.exit_code, 2) << run.output;
    EXPECT_TRUE(run.contains(reason)) << run.output;
    EXPECT_FALSE(run.contains("median us")) << run.output;
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(Bench, ReportsWrongElementsAndKeepsTheRowsAroundAFailedOne) {
  const TemporaryFolder folder;
  const Outcome run = run_command(
      "host bench --backend local-damaged --ranks 3 --op all_reduce,broadcast,barrier "
      "--bytes 40,4000 --json bench.json",
      folder.path());
  EXPECT_EQ(run.exit_code, 1) << run.output;
  const nlohmann::json result = read_json(folder.path() / "bench.json");
  ASSERT_EQ(result.at("rows").size(), 5u);
  EXPECT_EQ(find_row(result, "all_reduce", 40).at("wrong"), 0);
  const auto& damaged = find_row(result, "all_reduce", 4000);
  const int64_t warm_up_and_samples = damaged.at("repetitions").get<int64_t>() + 2;
  EXPECT_EQ(damaged.at("wrong"), warm_up_and_samples * damaged.at("calls").get<int64_t>());
  EXPECT_TRUE(run.contains("WRONG: all_reduce of 4000 bytes")) << run.output;
  EXPECT_EQ(find_row(result, "broadcast", 40).at("wrong"), 0);
  const std::string failure = find_row(result, "broadcast", 4000).at("failure");
  EXPECT_NE(failure.find("the cable is out"), std::string::npos) << failure;
  EXPECT_EQ(find_row(result, "barrier", 0).at("wrong"), 0);
}

TEST(Bench, RefusesBadInputBeforeAnythingRuns) {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> cases[] = {
      {"--op all_reduse", "did you mean all_reduce? valid: all_reduce, reduce_scatter"},
      {"--op recv", "--op recv is unknown"},
      {"--dtype float31", "did you mean float32? valid: float32, float64, bfloat16"},
      {"--bytes 0", "--bytes 0 is not a size; valid: 1 to 1 TiB"},
      {"--bytes=-8", "--bytes -8 is not a size"},
      {"--bytes 64,many", "--bytes many is not a size"},
      {"--bytes 1TiB", "give smaller --bytes"},
      {"--backend lokal", "local"},
      {"--ranks 0", "--ranks 0; valid: 1 to 64"},
      {"--backend mpi", "use backend = \"local\""},
      {"--json missing/bench.json", "missing"},
      {"--set communication.mpi.algorithm=ring", "valid: communication.local.<option>"},
      {"--set communication.local.algorithm=ring", "--set communication.local.algorithm=ring"},
      {"--set algorithm", "no = in it"},
  };
  for (const auto& [arguments, text] : cases) {
    const std::string ranks = std::string(arguments).starts_with("--ranks") ? "" : "--ranks 2 ";
    const Outcome run = run_command("host bench " + ranks + arguments, folder.path());
    EXPECT_EQ(run.exit_code, 2) << arguments << ": " << run.output;
    EXPECT_TRUE(run.contains(text)) << arguments << ": " << run.output;
    EXPECT_FALSE(run.contains("median us")) << run.output;
  }
}

TEST(Bench, ThreadsAndALauncherExcludeEachOther) {
  const TemporaryFolder folder;
  const Outcome both = run_command("mpirun -np 2 host bench --ranks 2", folder.path());
  EXPECT_EQ(both.exit_code, 2) << both.output;
  EXPECT_EQ(both.count("leave out --ranks or the launcher"), 1) << both.output;
  const Outcome local = run_command("host bench --backend local", folder.path());
  EXPECT_EQ(local.exit_code, 2) << local.output;
  EXPECT_TRUE(local.contains("give --ranks N")) << local.output;
}

}  // namespace
}  // namespace cleave::test
