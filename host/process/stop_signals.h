// Requests to end a run early, as signals: SIGTERM and SIGUSR1 wait until somebody asks for them.
#pragma once

#include <csignal>

namespace cleave {

/// While this lives, the two signals neither end nor interrupt the process. To be made before the
/// process has other threads: these inherit it.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Whether one has come since the last call, to whichever thread. Never blocks.
  bool take();

 private:
  sigset_t signals_;
  sigset_t before_;
};

}  // namespace cleave
