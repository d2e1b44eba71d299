#include "stop_signals.h"

#include <pthread.h>

#include <ctime>

namespace cleave {

StopSignals::StopSignals() {
  ::sigemptyset(&signals_);
  ::sigaddset(&signals_, SIGTERM);
  ::sigaddset(&signals_, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
}

StopSignals::~StopSignals() {
  while (take()) {
  }  // what came too late must not end the process now
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool StopSignals::take() {
  const timespec now = {0, 0};
  return ::sigtimedwait(&signals_, nullptr, &now) > 0;
}

}  // namespace cleave
