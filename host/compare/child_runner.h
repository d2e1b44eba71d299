// Runs programs one after the other, so that none outlives its time, a Ctrl-C or this process.
#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cleave {

struct Program {
  std::vector<std::string> arguments;                            ///< the program's path first
  std::vector<std::pair<std::string, std::string>> environment;  ///< beside this process's
  std::filesystem::path log;                                     ///< stdout and stderr; replaced
};

struct ProgramEnd {
  enum class Kind {
    exited,     ///< with `code`
    signalled,  ///< by signal `code`
    too_long,   ///< its time was over
    stopped     ///< this process was asked to stop
  };
  Kind kind;
  int code = 0;
  double seconds = 0;
};

/// While this lives, SIGINT, SIGTERM and SIGHUP don't end the process: they end the program that
/// runs. To be made before the process has other threads or children. All that descends from a
/// program is gone when run() returns, also what left its process group or lost its parent.
class ChildRunner {
 public:
  ChildRunner();
  ~ChildRunner();
  ChildRunner(const ChildRunner&) = delete;
  ChildRunner& operator=(const ChildRunner&) = delete;

  /// `each_second` is called while it runs. Exit code 127 and a line in the log when the program
  /// can't be started. Throws RuntimeError when there is no process to be had.
  ProgramEnd run(const Program& program, std::chrono::milliseconds limit,
                 const std::function<void()>& each_second);

  /// Whether one of the signals has come.
  bool is_stopped() const { return num_requests_ > 0; }

 private:
  bool wait(pid_t child, std::chrono::steady_clock::time_point until, int& status);
  ProgramEnd await(pid_t child, std::chrono::milliseconds limit,
                   const std::function<void()>& each_second);
  void end(pid_t child);

  sigset_t signals_;
  sigset_t before_;
  int num_requests_ = 0;
};

}  // namespace cleave
