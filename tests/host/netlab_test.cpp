// tools/netlab: nodes with limited links on this machine, where it can have them.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "host_process.h"

namespace cleave::test {
namespace {

const std::string kNetlab = CLEAVE_SOURCE "/tools/netlab";

constexpr int kCanNot = 77;

TEST(Netlab, CountersOfTheLinkAgreeWithTheFormula) {
  const TemporaryFolder folder;
  const Outcome run =
      run_command(kNetlab +
                      " --nodes 2 --rate 1gbit -- host bench --backend mpi --op all_reduce "
                      "--bytes 1048576 --json bench.json",
                  folder.path());
  if (run.exit_code == kCanNot) GTEST_SKIP() << run.output;
  ASSERT_EQ(run.exit_code, 0) << run.output;
  std::ifstream file(folder.path() / "bench.json");
  const auto result = nlohmann::json::parse(file);
  EXPECT_EQ(result.at("nodes"), 2);
  EXPECT_EQ(result.at("network_interfaces"), nlohmann::json::array({"eth0"}));
  const auto& row = result.at("rows").at(0);
  EXPECT_EQ(row.at("wrong"), 0);
  EXPECT_EQ(row.at("wire_bytes"), 2.0 * 1048576);
  const double ratio = row.at("network_bytes").get<double>() / row.at("wire_bytes").get<double>();
  EXPECT_GT(ratio, 1.0) << run.output;
  EXPECT_LT(ratio, 1.1) << run.output;
  // 1 Gbit/s is 0.125 GB/s; after a pause the first 2 ms' worth of a call's bytes pass at once
  EXPECT_LT(row.at("busbw_gb_s"), 0.17) << run.output;
}

/// Runs `host bench` on nodes of 1 Gbit/s; every row's counters against its formula.
void expect_formulas(const std::string& nodes, const std::string& arguments) {
  const TemporaryFolder folder;
  const Outcome run = run_command(kNetlab + " " + nodes + " --rate 1gbit -- host bench " +
                                      arguments + " --bytes 2MiB --json bench.json",
                                  folder.path());
  if (run.exit_code == kCanNot) GTEST_SKIP() << run.output;
  ASSERT_EQ(run.exit_code, 0) << run.output;
  std::ifstream file(folder.path() / "bench.json");
  for (const auto& row : nlohmann::json::parse(file).at("rows")) {
    SCOPED_TRACE(row.dump());
    const double formula = row.at("network_formula_bytes");
    EXPECT_EQ(formula == 0, row.at("op") == "barrier");
    EXPECT_NEAR(row.at("network_bytes"), formula, formula > 0 ? 0.03 * formula : 10'000);
  }
}

TEST(Netlab, CountersAgreeWhereRanksShareNodes) {
  expect_formulas("--nodes 2 --ranks-per-node 2", "--op all_reduce,broadcast,send_recv,barrier");
}

TEST(Netlab, CountersAgreeForSumsThatAreRoundedOnce) {
  expect_formulas("--nodes 3", "--op all_reduce,send_recv --dtype bfloat16");
}

TEST(Netlab, PackedMessagesTrainToTheSameBits) {
  std::vector<std::string> losses[2], norms[2];
  for (const int is_packed : {0, 1}) {
    const TemporaryFolder folder;
    const auto config = write_run(folder.path(), {{"model.hidden_size", "96"},
                                                  {"train.steps", "4"},
                                                  {"strategy.ddp.bucket_bytes", "1000000"}});
    const Outcome run = run_command(
        kNetlab + " --nodes 2 --ranks-per-node 2 --rate none -- host --config " + config.string() +
            " --set communication.mpi.wire=" + (is_packed ? "packed" : "plain"),
        folder.path());
    if (run.exit_code == kCanNot) GTEST_SKIP() << run.output;
    ASSERT_EQ(run.exit_code, 0) << run.output;
    EXPECT_EQ(run.contains("floats packed"), is_packed == 1) << run.output;
    losses[is_packed] = metric(folder.path(), "loss");
    norms[is_packed] = metric(folder.path(), "grad_norm");
  }
  EXPECT_EQ(losses[0].size(), 4);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(norms[0], norms[1]);
}

TEST(Netlab, ASlowLinkThatWasMeasuredIsPacked) {
  const TemporaryFolder folder;
  const std::string bench = kNetlab + " --nodes 2 --rate 1gbit -- host bench --backend mpi ";
  const Outcome measured =
      run_command(bench + "--op send_recv --bytes 64,2MiB --json link.json", folder.path());
  if (measured.exit_code == kCanNot) GTEST_SKIP() << measured.output;
  ASSERT_EQ(measured.exit_code, 0) << measured.output;
  EXPECT_FALSE(measured.contains("floats packed")) << measured.output;
  const std::string reduce =
      bench + "--op all_reduce --bytes 2MiB --set communication.mpi.link_file=link.json";
  const Outcome packed = run_command(reduce, folder.path());
  EXPECT_EQ(packed.exit_code, 0) << packed.output;
  EXPECT_TRUE(packed.contains("link.json), floats packed")) << packed.output;
  const Outcome plain = run_command(reduce + " --set communication.mpi.wire=plain", folder.path());
  EXPECT_EQ(plain.exit_code, 0) << plain.output;
  EXPECT_FALSE(plain.contains("floats packed")) << plain.output;
}

/// A command of this text for every rank; `lab` will hold the folder that the lab gave to all.
std::string write_command(const std::filesystem::path& folder, const std::string& text) {
  const std::filesystem::path file = folder / "command.sh";
  std::ofstream(file) << "echo $TMPDIR > " << (folder / "lab").string() << "\n" << text << "\n";
  return "bash " + file.string();
}

/// Of the lab that ran write_command's: its folder or its namespaces.
void expect_gone(const std::filesystem::path& folder) {
  std::string lab;
  std::ifstream(folder / "lab") >> lab;
  ASSERT_NE(lab.find("cleave-lab-"), std::string::npos) << lab;
  EXPECT_FALSE(std::filesystem::exists(lab)) << lab;
  const std::string name = std::filesystem::path(lab).stem();
  const Outcome left = run_command("ip netns list", folder);
  EXPECT_FALSE(left.contains(name + "-")) << left.output;
}

TEST(Netlab, RemovesWhatAKilledOneLeftAndItsOwn) {
  const TemporaryFolder folder, later;
  // the number in the folder's name is the lab's process
  const std::string kill_lab =
      write_command(folder.path(), "lab=${TMPDIR#*cleave-lab-}\nkill -KILL ${lab%.*}\nsleep 100");
  const Outcome killed =
      run_command(kNetlab + " --rate 200mbit -- " + kill_lab + " > output 2>&1", folder.path());
  if (killed.exit_code == kCanNot) GTEST_SKIP() << "tools/netlab: can't run here";
  EXPECT_EQ(killed.exit_code, 137);

  const std::string name_node = write_command(later.path(), "sleep 3\necho on $(hostname)");
  const Outcome next =
      run_command(kNetlab + " --nodes 3 --ranks-per-node 2 -- " + name_node, later.path());
  EXPECT_EQ(next.exit_code, 0) << next.output;
  EXPECT_TRUE(next.contains("removing what the killed lab")) << next.output;
  for (const char* node : {"on node1", "on node2", "on node3"})
    EXPECT_EQ(next.count(node), 2) << next.output;
  expect_gone(folder.path());
  expect_gone(later.path());
}

TEST(Netlab, NeighboursOnTwoMachinesDontPassForOne) {
  const TemporaryFolder folder;
  write_run(folder.path(), {{"train.steps", "1"}, {"strategy.compress.ranks_per_machine", "2"}});
  const Outcome run =
      run_command(kNetlab + " --nodes 2 --rate none -- host --config run.toml", folder.path());
  if (run.exit_code == kCanNot) GTEST_SKIP() << run.output;
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_EQ(
      run.count("strategy compress: ranks_per_machine = 2, but such neighbours along data are "
                "on several machines"),
      1)
      << run.output;
}

TEST(Netlab, ReturnsTheCommandsStatus) {
  const TemporaryFolder folder;
  const std::string fail = write_command(folder.path(), "sleep 3\nexit 3");
  const Outcome run = run_command(kNetlab + " --rate none -- " + fail, folder.path());
  if (run.exit_code == kCanNot) GTEST_SKIP() << run.output;
  EXPECT_EQ(run.exit_code, 3) << run.output;
  expect_gone(folder.path());
}

TEST(Netlab, RefusesWrongArguments) {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> cases[] = {
      {"--nodes 0 -- true", "--nodes 0 is not 1 to 99"},
      {"--rate fast -- true", "--rate fast is not like 200mbit, 1gbit or none"},
      {"--delay 5 -- true", "--delay 5 is not like 500us, 5ms or none"},
      {"--ranks 2 -- true", "unknown argument --ranks"},
      {"--nodes 2", "no command; give it after --"},
      {"--nodes", "--nodes needs a value"},
  };
  for (const auto& [arguments, text] : cases) {
    const Outcome run = run_command(kNetlab + " " + arguments, folder.path());
    EXPECT_EQ(run.exit_code, 2) << arguments << ": " << run.output;
    EXPECT_TRUE(run.contains(text)) << arguments << ": " << run.output;
  }
}

}  // namespace
}  // namespace cleave::test
