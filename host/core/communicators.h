// The rank's communicators: one over all ranks and one along each mesh axis.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cleave/comm.h"
#include "cleave/mesh.h"
#include "config/option_table.h"
#include "config/run_config.h"
#include "core/agreement.h"
#include "core/solver.h"
#include "process/process.h"

namespace cleave {

/// Loads the backend plugin; nothing is created. For the solver.
PlannedBackend plan_backend(const RunConfig& config);

class Communicators {
 public:
  /// Collective over all ranks of the run: loads the backend plugin and creates its communicators.
  Communicators(const RunConfig& config, const Mesh& mesh, const Bootstrap& bootstrap);
  ~Communicators();

  Comm& world() { return *world_; }
  Comm& axis(std::string_view name);
  CommStats& stats() { return stats_; }
  /// Of the backend's build and options.
  const Fingerprint& fingerprint() const { return fingerprint_; }
  void set_trace(const CommTrace& trace);

  void abort() noexcept;
  /// Collective, after a run that ended well (or with an error that all ranks agreed on).
  void finalize();

 private:
  CommStats stats_;
  std::unique_ptr<OptionValues> options_;
  Fingerprint fingerprint_;
  std::unique_ptr<Comm> world_;
  std::map<std::string, std::unique_ptr<Comm>, std::less<>> axes_;
};

}  // namespace cleave
