#include "compare/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <thread>

#include "cleave/error.h"

namespace cleave {
namespace {

constexpr char kThreadBackend[] = "local";  // ranks as threads: no launcher, no other process

// As tools/env has it, which is not there for an installed program.
constexpr std::pair<const char*, const char*> kEnvironment[] = {
    {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
    {"PRTE_MCA_hwloc_default_binding_policy", "none"},
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
    {"OMPI_MCA_mpi_yield_when_idle", "1"},
    {"OMP_WAIT_POLICY", "passive"}};
constexpr const char* kRootEnvironment[] = {"OMPI_ALLOW_RUN_AS_ROOT",
                                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"};

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

// The row's backend and mesh; nothing when the run itself will refuse it.
std::optional<RunConfig> row_run(const CompareConfig& config, const CompareRow& row) {
  std::vector<std::string> overrides = config.shared_texts(false);
  overrides.insert(overrides.end(), row.overrides.begin(), row.overrides.end());
  try {
    return load_run_config(config.run, overrides);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

// Threads have no launcher that counts them: the mesh must say how many there are.
std::string spell_data_axis(const RunConfig& run, const CompareRow& row,
                            std::vector<std::string>& overrides) {
  int64_t product = 1;
  for (const auto& [axis, size] : run.mesh) product *= size;
  if (!run.mesh.count("data") && row.ranks % product == 0) {
    overrides.push_back(message("mesh.data=", row.ranks / product));
    return "";
  }
  return product == row.ranks ? ""
                              : message("the mesh has ", product, " ranks, this row ", row.ranks);
}

std::string link_fault(const CompareRow& row) {
  if (row.ranks % row.link.nodes == 0) return "";
  return message(row.ranks, " ranks don't spread evenly over ", row.link.nodes, " nodes");
}

std::string quote_shell(const std::string& word) {
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("-_./=:,+%@").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

EnvironmentChanges environment_changes(const CompareConfig& config) {
  EnvironmentChanges changes;
  const auto add = [&](const char* name, const std::string& value) {
    if (!std::getenv(name)) changes.emplace_back(name, value);
  };
  for (const auto& [name, value] : kEnvironment) add(name, value);
  if (::getuid() == 0)
    for (const char* name : kRootEnvironment) add(name, "1");
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const int64_t most_ranks = *std::max_element(config.ranks.begin(), config.ranks.end());
  add("OMP_NUM_THREADS", std::to_string(std::max<int64_t>(1, cores / most_ranks)));
  return changes;
}

Launch make_launch(const CompareConfig& config, const CompareRow& row,
                   const std::filesystem::path& run_file, const std::filesystem::path& metrics) {
  Launch launch;
  std::vector<std::string> overrides = row.overrides;
  const std::optional<RunConfig> run = row_run(config, row);
  const bool is_threads = run && run->communication.backend.name == kThreadBackend;
  if (is_threads) launch.refusal = spell_data_axis(*run, row, overrides);
  if (row.link.is_limited) {
    launch.refusal =
        is_threads ? "ranks that are threads of one process use no link" : link_fault(row);
    if (!std::filesystem::exists(config.netlab))
      launch.skip_reason =
          message(config.netlab.string(), " is not there; set netlab to the path of tools/netlab");
    launch.arguments = {config.netlab.string(),
                        "--nodes",
                        std::to_string(row.link.nodes),
                        "--rate",
                        row.link.rate,
                        "--delay",
                        row.link.delay,
                        "--ranks-per-node",
                        std::to_string(row.ranks / row.link.nodes),
                        "--"};
  } else if (row.ranks > 1 && !is_threads) {
    launch.arguments = {"mpirun", "-np", std::to_string(row.ranks)};
  }
  for (const std::string& word : {own_program(), std::string("--config"), run_file.string()})
    launch.arguments.push_back(word);
  overrides.push_back("metrics.directory=" + quote_toml(metrics.string()));
  for (const std::string& assignment : overrides) {
    launch.arguments.emplace_back("--set");
    launch.arguments.push_back(assignment);
  }
  return launch;
}

std::string shell_line(const EnvironmentChanges& environment,
                       const std::vector<std::string>& arguments) {
  std::string line;
  for (const auto& [name, value] : environment) line += name + "=" + quote_shell(value) + " ";
  for (const std::string& word : arguments)
    line += quote_shell(word) + (&word == &arguments.back() ? "" : " ");
  return line;
}

std::filesystem::path find_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path candidate = std::filesystem::path(folder) / program;
    if (::access(candidate.c_str(), X_OK) == 0 && !std::filesystem::is_directory(candidate))
      return candidate;
  }
  return {};
}

}  // namespace cleave
