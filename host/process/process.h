// Who this process is, from the launcher's environment, and how ranks find each other without MPI.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cleave/communicator.h"

namespace cleave {

struct ProcessInfo {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string launcher;  ///< "Open MPI", "torchrun", "Slurm", "PMI", or "" when started plainly
};

/// Looks a variable up: nullptr when it is not set. The program passes ::getenv.
using Environment = std::function<const char*(const char*)>;

/// Reads Open MPI's, torchrun's, Slurm's (inside a job step) and PMI's variables, in that order;
/// inconsistent ones (rank not below size, not a number) are a ConfigError that names the variable.
ProcessInfo read_process_info(const Environment& environment = ::getenv);

/// Owner of a cleave_bootstrap. `table()` lives as long as this.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual const cleave_bootstrap& table() const = 0;
  /// Why the last `set` or `get` failed, empty when it did not: the C table carries a status only,
  /// so the host adds this to the message of the plugin that gave up.
  virtual std::string error() const = 0;
  /// Forgets a key that nobody asks for any more; RuntimeError.
  virtual void remove(const std::string& key) const = 0;
};

/// Ranks as threads of this process: the key-value store is shared by all `world_size` bootstraps.
std::vector<std::unique_ptr<Bootstrap>> make_thread_bootstraps(int world_size);
/// Ranks as processes: a c10d::TCPStore at find_store_address(); it is opened on the first `set` or
/// `get`, since a backend such as mpi needs none. Rank 0 serves it, except under torchrun, whose
/// agent does; so rank 0's is destroyed last. A single rank keeps its keys to itself.
std::unique_ptr<Bootstrap> make_process_bootstrap(const ProcessInfo& process,
                                                  Environment environment = ::getenv);

/// Where the ranks of a run meet.
struct StoreAddress {
  std::string host;
  uint16_t port;
  bool rank_0_serves;  ///< false: torchrun's agent does
  /// Of every key: a restarted group never reads its predecessor's, nor a job those of the one that
  /// has its port.
  std::string prefix;
};

/// From MASTER_ADDR and MASTER_PORT; without MASTER_ADDR from Slurm's step, or this machine's own
/// address when Open MPI started all ranks here, with MASTER_PORT or else a port that follows from
/// the job. ConfigError that says what to set.
StoreAddress find_store_address(const Environment& environment);

}  // namespace cleave
