// Where the ranks of a run meet, without MPI.
#include <xxhash.h>

#include <optional>

#include "cleave/error.h"
#include "environment.h"
#include "process.h"

namespace cleave {
namespace {

constexpr int64_t kMaxPort = 65535;

/// What a launcher tells of its ranks. `job` differs between those that may meet on one machine.
struct Launch {
  std::string first_host;
  uint64_t job;
};

/// Rank 0 runs on the first host of the step, which needn't be the first of the job.
std::optional<Launch> slurm_step(const Environment& environment) {
  constexpr int64_t kMaxId = int64_t{1} << 32;
  if (!is_set(environment, "SLURM_STEP_ID")) return std::nullopt;
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
    if (const char* nodes = environment(name))
      return Launch{first_host(nodes),
                    static_cast<uint64_t>(required_number(environment, "SLURM_JOB_ID", kMaxId) +
                                          required_number(environment, "SLURM_STEP_ID", kMaxId))};
  return std::nullopt;
}

/// mpirun, with all ranks on this machine: it names no other to its ranks.
std::optional<Launch> open_mpi_on_one_machine(const Environment& environment) {
  const char* size = environment("OMPI_COMM_WORLD_SIZE");
  const char* local_size = environment("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (!size || !local_size || std::string_view(size) != local_size) return std::nullopt;
  const char* job = environment("PMIX_NAMESPACE");
  const std::string_view name = job ? job : "";
  return Launch{"127.0.0.1", XXH3_64bits(name.data(), name.size())};
}

/// Below the range from which Linux gives out ports, and rarely the same for two jobs.
uint16_t port_of(const Launch& launch) {
  constexpr uint64_t kFirstPort = 15000, kNumPorts = 15000;
  return static_cast<uint16_t>(kFirstPort + launch.job % kNumPorts);
}

}  // namespace

StoreAddress find_store_address(const Environment& environment) {
  const char* master = environment("MASTER_ADDR");
  const bool has_port = is_set(environment, "MASTER_PORT");
  std::optional<Launch> launch;
  if (!master) launch = slurm_step(environment);
  if (!master && !launch) launch = open_mpi_on_one_machine(environment);
  if (!launch && !(master && has_port)) {
    throw ConfigError(message("environment: ", master ? "MASTER_PORT" : "MASTER_ADDR",
                              " is not set, so the ranks can't find each other; set MASTER_ADDR to "
                              "the host of rank 0 and MASTER_PORT to a free port on it "
                              "(mpirun -x MASTER_ADDR=... -x MASTER_PORT=...), or start with "
                              "torchrun, srun, or mpirun on one machine"));
  }
  const auto port =
      has_port ? static_cast<uint16_t>(required_number(environment, "MASTER_PORT", kMaxPort))
               : port_of(*launch);
  const char* agent_serves = environment("TORCHELASTIC_USE_AGENT_STORE");
  const char* restart = environment("TORCHELASTIC_RESTART_COUNT");
  return {
      launch ? launch->first_host : master, port,
      !(agent_serves && std::string_view(agent_serves) == "True"),
      message("cleave/", launch ? message(launch->job, "/") : "", restart ? restart : "0", "/")};
}

}  // namespace cleave
