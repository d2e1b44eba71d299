// What every child process of ours does first.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace cleave {

/// Call in the child of a fork. It gets `death_signal` when the thread that forked it ends;
/// whatever this process or its libraries made of signals, a fault ends it at once and without a
/// core file.
inline void begin_child(pid_t parent, int death_signal) {
  ::prctl(PR_SET_PDEATHSIG, death_signal);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  for (int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPIPE, SIGTERM,
                     SIGINT, SIGALRM})
    ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
}

}  // namespace cleave
