#include "process.h"

#include <limits>

#include "cleave/error.h"
#include "environment.h"

namespace cleave {
namespace {

constexpr int64_t kMaxRanks = std::numeric_limits<int32_t>::max();

struct Variables {
  const char* launcher;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;
};

constexpr Variables kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Variables kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                 "LOCAL_WORLD_SIZE"};
constexpr Variables kSlurm = {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
                              "SLURM_STEP_TASKS_PER_NODE"};
constexpr Variables kPmi = {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

int number(const Environment& environment, const char* name) {
  return static_cast<int>(required_number(environment, name, kMaxRanks));
}

void check_below(const Environment& environment, const char* name, int value,
                 const char* limit_name, int limit) {
  if (value < limit) return;
  throw ConfigError(message("environment: ", name, " = ", environment(name), " is not below ",
                            limit_name, " = ", environment(limit_name),
                            "; start the ranks through the launcher"));
}

ProcessInfo checked(const Environment& environment, const Variables& names,
                    const ProcessInfo& info) {
  check_below(environment, names.rank, info.rank, names.world_size, info.world_size);
  check_below(environment, names.local_rank, info.local_rank, names.local_size, info.local_size);
  if (info.local_size > info.world_size) {
    throw ConfigError(message("environment: ", names.local_size, " = ",
                              environment(names.local_size), " gives this machine more ranks than ",
                              names.world_size, " = ", environment(names.world_size),
                              "; start the ranks through the launcher"));
  }
  return info;
}

ProcessInfo read_plain(const Environment& environment, const Variables& names) {
  return checked(environment, names,
                 {number(environment, names.rank), number(environment, names.world_size),
                  number(environment, names.local_rank), number(environment, names.local_size),
                  names.launcher});
}

/// A batch script and an interactive shell carry SLURM_PROCID = 0 and the job's task count too, but
/// run once; their step ids are the special ones at the top of 32 bits.
bool is_inside_slurm_step(const Environment& environment) {
  constexpr int64_t kFirstSpecialStep = 0xfffffff0;
  constexpr int64_t kLastStep = 0xffffffff;
  return is_set(environment, "SLURM_STEP_ID") &&
         required_number(environment, "SLURM_STEP_ID", kLastStep) < kFirstSpecialStep;
}

ProcessInfo read_slurm(const Environment& environment) {
  const int64_t node = required_number(environment, "SLURM_NODEID", kMaxRanks);
  const char* counts = environment(kSlurm.local_size);
  const auto local_size = nth_task_count(counts ? counts : "", node);
  if (!local_size) {
    throw ConfigError(message("environment: ", kSlurm.local_size, " = \"", counts ? counts : "",
                              "\" has no entry for SLURM_NODEID = ", node,
                              "; start the ranks through srun"));
  }
  return checked(environment, kSlurm,
                 {number(environment, kSlurm.rank), number(environment, kSlurm.world_size),
                  number(environment, kSlurm.local_rank), *local_size, kSlurm.launcher});
}

/// PMI itself says nothing about machines; where the launcher doesn't either (it does in MPICH and
/// Intel MPI), all ranks are taken to be on one.
ProcessInfo read_pmi(const Environment& environment) {
  if (is_set(environment, kPmi.local_rank)) return read_plain(environment, kPmi);
  Variables one_machine = kPmi;
  one_machine.local_rank = kPmi.rank;
  one_machine.local_size = kPmi.world_size;
  return read_plain(environment, one_machine);
}

}  // namespace

ProcessInfo read_process_info(const Environment& environment) {
  if (is_set(environment, kOpenMpi.rank)) return read_plain(environment, kOpenMpi);
  if (is_set(environment, kTorchrun.rank)) return read_plain(environment, kTorchrun);
  if (is_inside_slurm_step(environment)) return read_slurm(environment);
  if (is_set(environment, kPmi.rank)) return read_pmi(environment);
  return {};
}

}  // namespace cleave
