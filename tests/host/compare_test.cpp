// host compare: what a user gets from rows that run, are refused, fail and hang, and what is left
// when it is stopped.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "host_process.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string content(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

/// Processes whose command line has `text`.
std::string processes_with(const std::string& text) {
  std::string found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string line = content(entry.path() / "cmdline");
    if (line.find(text) != std::string::npos) found += line + "\n";
  }
  return found;
}

class Compare : public testing::Test {
 protected:
  Compare() { write_run(folder_.path(), {{"train.steps", "4"}}); }

  // `rest`: of compare.toml. The folder's whole path is in every command that it starts.
  void write_compare(const std::string& rest) const {
    std::ofstream(folder_.path() / "compare.toml")
        << "config = \"run.toml\"\nranks = [2]\nskipped_steps = 1\ndirectory = \"" << out().string()
        << "\"\n"
        << rest;
  }
  fs::path out() const { return folder_.path() / "out"; }
  Outcome run(const std::string& arguments = "") const {
    return run_command("host compare --config compare.toml " + arguments, folder_.path());
  }
  Json json() const { return Json::parse(content(out() / "compare.json")); }
  Json row(const std::string& label) const {
    const Json all = json();
    for (const Json& entry : all.at("rows"))
      if (entry.at("label") == label) return entry;
    ADD_FAILURE() << "no row " << label << " in " << all.dump(1);
    return {};
  }
  // XML's rules are stricter than HTML's: an unescaped character or an open element is found.
  void expect_valid_page() const {
    const Outcome parsed = run_command(
        "python3 -c \"import xml.etree.ElementTree as t; t.parse(\\\"out/index.html\\\")\"",
        folder_.path());
    EXPECT_EQ(parsed.exit_code, 0) << parsed.output;
  }

  TemporaryFolder folder_;
};

void expect_measured(const Json& row, size_t repetitions) {
  SCOPED_TRACE(row.dump());
  EXPECT_EQ(row.at("status"), "done");
  for (const char* figure :
       {"tokens_per_s", "step_ms", "exposed_communication_ms", "wire_bytes", "loss"}) {
    EXPECT_LE(row.at(figure).at("low"), row.at(figure).at("median")) << figure;
    EXPECT_LE(row.at(figure).at("median"), row.at(figure).at("high")) << figure;
  }
  EXPECT_GT(row.at("speed_up"), 0.0);
  EXPECT_NEAR(row.at("efficiency").get<double>() * row.at("ranks").get<double>(),
              row.at("speed_up").get<double>(), 1e-9);
  ASSERT_EQ(row.at("repetitions").size(), repetitions);
  for (const Json& repetition : row.at("repetitions")) {
    for (const char* figure : {"step_ms", "tokens_per_s", "loss", "wire_bytes"})
      EXPECT_EQ(repetition.at(figure).size(), 4u) << figure;
    for (const char* memory : {"peak_memory_mib", "resident_mib"})
      EXPECT_EQ(repetition.at(memory).size(), row.at("ranks")) << memory;
  }
}

TEST_F(Compare, EveryCombinationIsARowWithItsFiguresOrItsReason) {
  write_compare(R"(repetitions = 2
[backends]
mpi = {communication.backend = "mpi"}
threads = {communication.backend = "local"}
[strategies]
ddp = {strategy.ddp = {}}
odd = {strategy.ddp."a<b" = 1}
broken = {strategy.faulty.hook = "after_backward"}
)");
  const Outcome compared = run();
  EXPECT_EQ(compared.exit_code, 1) << compared.output;  // some rows failed
  EXPECT_TRUE(compared.contains("7 rows x 2 repetitions = 14 runs")) << compared.output;
  const Json all = json();
  EXPECT_TRUE(all.at("complete"));
  ASSERT_EQ(all.at("rows").size(), 7u);
  EXPECT_FALSE(all.at("machine").empty());
  EXPECT_TRUE(all.at("versions").contains("LibTorch"));

  const Json one = row("one rank");
  expect_measured(one, 2);
  EXPECT_EQ(one.at("wire_bytes").at("median"), 0);
  for (const char* label : {"2 ranks, mpi, ddp", "2 ranks, threads, ddp"}) {
    const Json two = row(label);
    expect_measured(two, 2);
    EXPECT_GT(two.at("wire_bytes").at("median"), 0);
    EXPECT_NEAR(two.at("loss").at("median").get<double>(),
                one.at("loss").at("median").get<double>(), 1e-4);
  }
  for (const std::string backend : {"mpi", "threads"}) {
    const Json refused = row("2 ranks, " + backend + ", odd");
    EXPECT_EQ(refused.at("status"), "refused");
    EXPECT_NE(refused.at("reason").get<std::string>().find("a<b"), std::string::npos);
    EXPECT_TRUE(refused.at("repetitions").empty());
    const Json failed = row("2 ranks, " + backend + ", broken");
    EXPECT_EQ(failed.at("status"), "failed");
    EXPECT_NE(failed.at("reason").get<std::string>().find("thrown by the test"), std::string::npos);
  }
  expect_valid_page();
  const std::string page = content(out() / "index.html");
  EXPECT_NE(page.find("a&lt;b"), std::string::npos);
  EXPECT_EQ(page.find("a<b"), std::string::npos);
  EXPECT_EQ(compared.count("refused: "), 4) << compared.output;  // while it runs, and at the end
  EXPECT_EQ(processes_with(folder_.path().string()), "");
}

TEST_F(Compare, ARowsCommandRepeatsIt) {
  write_compare("repetitions = 1\n");
  ASSERT_EQ(run().exit_code, 0);
  const Json two = row("2 ranks, mpi, ddp");
  fs::remove_all(out() / "row-02");
  std::ofstream(folder_.path() / "again.sh") << two.at("command").get<std::string>() << "\n";
  const Outcome again = run_command("bash again.sh", folder_.path());
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_TRUE(fs::exists(out() / "row-02" / "1" / "metrics.jsonl"));
}

TEST_F(Compare, PrintsRowsAndCommandsWithoutRunningAnything) {
  write_compare("[strategies]\nfull = {strategy.fsdp = {}}\n");
  const Outcome printed = run("--print-rows");
  EXPECT_EQ(printed.exit_code, 0) << printed.output;
  EXPECT_TRUE(printed.contains("2 rows x 3 repetitions = 6 runs of run.toml")) << printed.output;
  EXPECT_TRUE(printed.contains("[strategies] stands for [strategy.ddp] of run.toml"))
      << printed.output;
  EXPECT_TRUE(printed.contains("   2  2 ranks, mpi, full")) << printed.output;
  EXPECT_EQ(printed.count("mpirun -np 2 "), 1) << printed.output;
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(Compare, TheCommittedExampleIsValid) {
  const Outcome printed = run_command(
      "host compare --config " CLEAVE_SOURCE "/configs/compare.toml --print-rows", folder_.path());
  EXPECT_EQ(printed.exit_code, 0) << printed.output;
}

TEST_F(Compare, ARunThatHangsEndsByItsLimitWithAllItsProcesses) {
  write_compare(R"(repetitions = 1
limit_s = 4
[strategies]
slow = {strategy.ddp = {}, strategy.slow-units.forward = "10 s"}
)");
  const Outcome compared = run();
  EXPECT_EQ(compared.exit_code, 1) << compared.output;
  const Json hung = row("2 ranks, mpi, slow");
  EXPECT_EQ(hung.at("status"), "failed");
  EXPECT_TRUE(hung.at("reason").get<std::string>().starts_with(
      "did not end within its time (limit_s), after 0 of 4 steps"))
      << hung;
  EXPECT_EQ(processes_with(folder_.path().string()), "");
  expect_valid_page();
}

class Stopped : public Compare, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Signals, Stopped, testing::Values("INT", "TERM"));

TEST_P(Stopped, LeavesAPageOfWhatIsThereAndNoProcess) {
  write_compare(R"(repetitions = 1
[strategies]
slow = {strategy.ddp = {}, strategy.slow-units.forward = "1 s"}
)");
  std::ofstream(folder_.path() / "stop.sh")
      << "set -m\n"  // else a shell makes background programs ignore INT
      << "host compare --config compare.toml > printed 2>&1 & compare=$!\n"
      << "while kill -0 $compare && ! [ -e out/row-02/1/log.txt ]; do sleep 0.05; done\n"
      << "kill -" << GetParam() << " $compare\n"
      << "wait $compare; status=$?\n"
      << "cat printed; exit $status\n";
  const Outcome stopped = run_command("bash stop.sh", folder_.path());
  EXPECT_EQ(stopped.exit_code, 1) << stopped.output;
  EXPECT_TRUE(stopped.contains("stopped by a signal; what is there is kept")) << stopped.output;
  EXPECT_FALSE(json().at("complete"));
  expect_measured(row("one rank"), 1);
  EXPECT_EQ(row("2 ranks, mpi, slow").at("status"), "not run");
  EXPECT_EQ(processes_with(folder_.path().string()), "");
  expect_valid_page();
}

TEST_F(Compare, ALinkIsMeasuredOrSkippedWithItsReason) {
  write_compare("repetitions = 1\nnetlab = \"" CLEAVE_SOURCE
                "/tools/netlab\"\n[links]\nslow = {rate = \"100mbit\"}\n");
  const Outcome compared = run();
  EXPECT_EQ(compared.exit_code, 0) << compared.output;  // a skipped row is no failure
  const Json linked = row("2 ranks, slow, mpi, ddp");
  expect_valid_page();
  if (linked.at("status") == "skipped") {
    EXPECT_NE(linked.at("reason").get<std::string>().find("can't run here"), std::string::npos);
    GTEST_SKIP() << linked.at("reason");
  }
  expect_measured(linked, 1);
  EXPECT_NE(linked.at("facts").dump().find("measured both ways at once"), std::string::npos);
}

TEST_F(Compare, WritesOverNothingButAnEarlierComparison) {
  const std::string original = content(folder_.path() / "run.toml");
  std::ofstream(folder_.path() / "compare.toml")
      << "config = \"run.toml\"\nranks = [2]\ndirectory = \".\"\n";
  const Outcome over_run = run();
  EXPECT_EQ(over_run.exit_code, 2) << over_run.output;
  EXPECT_TRUE(over_run.contains("compare.toml:3:1: directory: ./run.toml is the run to compare"))
      << over_run.output;
  EXPECT_EQ(content(folder_.path() / "run.toml"), original);
  fs::create_directory(out());
  std::ofstream(out() / "index.html") << "mine";
  write_compare("");
  const Outcome over_page = run();
  EXPECT_EQ(over_page.exit_code, 2) << over_page.output;
  EXPECT_TRUE(over_page.contains("index.html is not an earlier comparison's")) << over_page.output;
  EXPECT_EQ(content(out() / "index.html"), "mine");
}

TEST_F(Compare, RefusesToRunInsideALauncherOrWithoutOne) {
  write_compare("");
  const Outcome inside =
      run_command("mpirun -np 1 host compare --config compare.toml", folder_.path());
  EXPECT_EQ(inside.exit_code, 2) << inside.output;
  EXPECT_TRUE(
      inside.contains("host compare: started by Open MPI; it starts mpirun itself, start "
                      "host without a launcher"))
      << inside.output;
  const Outcome without = run_command(
      "PATH=/usr/nothing $(command -v host) compare --config compare.toml", folder_.path());
  EXPECT_EQ(without.exit_code, 2) << without.output;
  EXPECT_TRUE(without.contains("host compare: mpirun is not on PATH; source tools/env"))
      << without.output;
  EXPECT_FALSE(fs::exists(out()));
}

}  // namespace
}  // namespace cleave::test
