// What the mpi plugin refuses before anything is trained, and with which words.
#include <fstream>

#include "mpi_options.h"
#include "support/temporary_folder.h"

namespace cleave::testing {
namespace {

int environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : 1;
}

/// The text of the refusal; empty: it was not refused. On all ranks.
std::string refusal(std::vector<cleave_option_value> values) {
  cleave_bootstrap bootstrap{};
  bootstrap.struct_size = sizeof bootstrap;
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  bootstrap.rank = rank ? std::atoi(rank) : 0;
  bootstrap.world_size = environment("OMPI_COMM_WORLD_SIZE");
  bootstrap.local_size = environment("OMPI_COMM_WORLD_LOCAL_SIZE");
  const cleave_options options{values.data(), static_cast<uint32_t>(values.size())};
  cleave_communicator* created = nullptr;
  char error[1024] = "";
  if (load_plugin(CLEAVE_MPI_PLUGIN)
          .create_communicator(&bootstrap, &options, &created, error, sizeof error) != CLEAVE_OK)
    return error;
  Communicator communicator(created);
  return "";
}

void set_devices(std::vector<cleave_option_value>& values, const cleave_option_value& item) {
  for (cleave_option_value& value : values)
    if (std::string(value.key) == "devices") {
      value.items = &item;
      value.num_items = 1;
    }
}

void expect_refusal(const std::vector<cleave_option_value>& values,
                    const std::vector<std::string>& parts) {
  run_ranks(variants().front(), [](Communicator&) {});  // MPI runs
  const std::string text = refusal(values);
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

TEST(MpiRefusals, ADeviceThatDoesNotExist) {
  std::vector<cleave_option_value> values = mpi_options(variants().front());
  cleave_option_value item{"", CLEAVE_OPTION_STRING, 0, 0, "nosuch0", nullptr, 0};
  set_devices(values, item);
  expect_refusal(values, {"devices", "\"nosuch0\"", "it has ", "lo"});
}

TEST(MpiRefusals, ADeviceThatTheEnvironmentOrTheMachinesContradict) {
  std::vector<cleave_option_value> values = mpi_options(variants().front());
  cleave_option_value item{"", CLEAVE_OPTION_STRING, 0, 0, "lo", nullptr, 0};
  set_devices(values, item);
  const bool has_several_machines =
      environment("OMPI_COMM_WORLD_LOCAL_SIZE") < environment("OMPI_COMM_WORLD_SIZE");
  if (has_several_machines) return expect_refusal(values, {"\"lo\" reaches this machine alone"});
  const char* name = "UCX_NET_DEVICES";
  const char* before = std::getenv(name);
  const std::string kept = before ? before : "";
  setenv(name, "eth7", 1);
  expect_refusal(values, {"devices is lo", "UCX_NET_DEVICES=eth7", "unset it"});
  if (before)
    setenv(name, kept.c_str(), 1);
  else
    unsetenv(name);
}

TEST(MpiRefusals, ALayerThatOpenMpiDidNotChoose) {
  std::string chosen;
  run_ranks(variants().front(), [&](Communicator& c) { chosen = c.describe(); });
  const bool is_ucx = chosen.find("pml ucx") != std::string::npos;
  const char* other = is_ucx ? "ob1" : "ucx";
  expect_refusal(mpi_options(variants().front(), 1 << 30, other),
                 {"pml = \"" + std::string(other) + "\" was asked for",
                  "Open MPI chose " + std::string(is_ucx ? "ucx" : "ob1")});
}

TEST(MpiRefusals, ALinkFileWithoutWhatItNeeds) {
  const test::TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& content) {
    const std::string path = (folder.path() / name).string();
    std::ofstream(path) << content;
    return path;
  };
  const auto refuses = [&](const std::string& path, const std::string& reason) {
    expect_refusal(mpi_options(variants().front(), 1 << 30, "auto", path.c_str()),
                   {"link_file = ", reason, "host bench"});  // rank 0's, on all ranks
  };
  refuses("/nonexistent/link.json", "can't be read");
  refuses("/dev/null", "is not a file");
  refuses(write("a.json", "{"), "is not what host bench --json writes");
  refuses(write("b.json", R"({"fits": []})"), "on how many nodes");
  refuses(write("c.json", R"({"nodes": 9, "fits": [{"op": "all_reduce"}]})"),
          "has no fit of send_recv");
  refuses(write("e.json", R"({"nodes": 9, "fits": [{"op": 3}]})"), "has no fit of send_recv");
  refuses(write("d.json", R"({"nodes": 9, "fits": [{"op": "send_recv", "alpha_us": "x"}]})"),
          "has no numbers");
}

}  // namespace
}  // namespace cleave::testing
