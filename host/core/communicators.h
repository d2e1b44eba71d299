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
  /// `bootstrap` outlives this.
  Communicators(const RunConfig& config, const Mesh& mesh, const Bootstrap& bootstrap);
  ~Communicators();

  /// Over all ranks, of the run's backend.
  Comm& world() { return *backends_.front().world; }
  /// Over all ranks, for CPU tensors outside of steps: the world itself where it moves them, else
  /// the host's key-value store.
  Comm& control() { return control_ ? *control_ : world(); }
  /// One of the latter's kind that shares nothing with it; null where the world does it. `name` is
  /// used once.
  std::unique_ptr<Comm> new_control(const std::string& name);
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

  /// Comm::wait_for_released of all.
  void wait_for_released();
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
  StartedBackend& start(const PluginTable& table);
  StartedBackend* find(const std::string& name);  // nullptr: not started

  const Bootstrap& bootstrap_;
  const int64_t timeout_ms_;
  const bool deterministic_;
  CommStats stats_;
  CommStats control_stats_;
  std::unique_ptr<Comm> control_;         // null: the world
  std::vector<StartedBackend> backends_;  // the run's first
  std::map<std::string, std::unique_ptr<Comm>, std::less<>> axes_;
};

}  // namespace cleave
