// The rank's communicators: for each backend in use one over all ranks, and split from it one along
// each mesh axis that the backend serves.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cleave/comm.h"
#include "cleave/mesh.h"
#include "config/option_table.h"
#include "config/run_config.h"
#include "core/agreement.h"
#include "core/solver.h"
#include "process/process.h"

namespace cleave {

/// Loads the backend plugins; nothing is created. For the solver.
PlannedBackend plan_backend(const RunConfig& config);

/// Which axes have which backend stands in the config (CommunicationConfig::backend_of). An axis of
/// one rank moves nothing: it has the run's backend, and a backend that only such axes name is
/// never started.
class Communicators {
 public:
  /// Collective over all ranks of the run: loads the backend plugins and creates their
  /// communicators. ConfigError when one can't, or when the ranks differ in who serves what.
  Communicators(const RunConfig& config, const Mesh& mesh, const Bootstrap& bootstrap);
  ~Communicators();

  /// Over all ranks, of the run's backend.
  Comm& world() { return *backends_.front().world; }
  /// Along an axis of the mesh, or a part of a divided one.
  Comm& axis(std::string_view name);
  CommStats& stats() { return stats_; }
  /// Of the backends' builds and options.
  Fingerprint fingerprint() const;
  void set_trace(const CommTrace& trace);

  /// One of the backends in use, for the header.
  struct Description {
    std::string name;
    std::string path;                 ///< how it moves bytes, in the plugin's words
    std::vector<std::string> serves;  ///< "world" (the run's), and axes of more than one rank
  };
  /// The run's backend first.
  std::vector<Description> describe() const;

  void abort() noexcept;
  /// Collective, after a run that ended well (or with an error that all ranks agreed on).
  void finalize();

 private:
  struct StartedBackend {
    std::string name;
    std::unique_ptr<OptionValues> options;  // outlives the communicator
    Fingerprint fingerprint;
    std::unique_ptr<Comm> world;
    std::vector<std::string> serves;
  };
  StartedBackend& start(const PluginTable& table, const Bootstrap& bootstrap, int64_t timeout_ms);
  StartedBackend* find(const std::string& name);  // nullptr: not started

  CommStats stats_;
  std::vector<StartedBackend> backends_;  // the run's first
  std::map<std::string, std::unique_ptr<Comm>, std::less<>> axes_;
};

}  // namespace cleave
