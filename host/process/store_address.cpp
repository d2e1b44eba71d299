// Where the ranks of a run meet, without MPI.
#include "cleave/error.h"
#include "environment.h"
#include "process.h"

namespace cleave {
namespace {

constexpr int64_t kMaxPort = 65535;

/// Below the range from which Linux gives out ports, and different for the steps of a job.
uint16_t slurm_port(const Environment& environment) {
  constexpr int64_t kFirstPort = 15000, kNumPorts = 15000, kMaxId = int64_t{1} << 32;
  const int64_t job = required_number(environment, "SLURM_JOB_ID", kMaxId);
  const int64_t step = required_number(environment, "SLURM_STEP_ID", kMaxId);
  return static_cast<uint16_t>(kFirstPort + (job + step) % kNumPorts);
}

/// Rank 0 runs on the first host of the step, which needn't be the first of the job.
std::string slurm_first_host(const Environment& environment) {
  if (!is_set(environment, "SLURM_STEP_ID")) return "";
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (const char* nodes = environment(name)) return first_host(nodes);
  }
  return "";
}

}  // namespace

StoreAddress find_store_address(const Environment& environment) {
  const char* master = environment("MASTER_ADDR");
  const bool has_port = is_set(environment, "MASTER_PORT");
  const std::string host = master ? master : slurm_first_host(environment);
  if (host.empty() || (master && !has_port)) {
    throw ConfigError(message("environment: ", host.empty() ? "MASTER_ADDR" : "MASTER_PORT",
                              " is not set, so the ranks can't find each other; set MASTER_ADDR to "
                              "the host of rank 0 and MASTER_PORT to a free port on it "
                              "(mpirun -x MASTER_ADDR=... -x MASTER_PORT=...), or start with "
                              "torchrun or srun"));
  }
  const int64_t port =
      has_port ? required_number(environment, "MASTER_PORT", kMaxPort) : slurm_port(environment);
  const char* agent_serves = environment("TORCHELASTIC_USE_AGENT_STORE");
  const char* restart = environment("TORCHELASTIC_RESTART_COUNT");
  return {host, static_cast<uint16_t>(port),
          !(agent_serves && std::string_view(agent_serves) == "True"),
          message("cleave/", restart ? restart : "0", "/")};
}

}  // namespace cleave
