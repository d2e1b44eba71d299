#include "compare/child_runner.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>

#include "cleave/error.h"
#include "process/begin_child.h"

namespace cleave {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A launcher ends its ranks, and tools/netlab removes its nodes, in less.
constexpr milliseconds kGrace{10'000};
constexpr milliseconds kKillTime{5'000};

RuntimeError no_child(const std::string& what) {
  return RuntimeError(message("a run can't be started: ", what, ": ", std::strerror(errno)));
}

// "NAME=value" of this process, then of the program.
std::vector<std::string> environment_of(const Program& program) {
  std::vector<std::string> all;
  for (char** entry = ::environ; *entry; ++entry) all.emplace_back(*entry);
  for (const auto& [name, value] : program.environment) {
    std::erase_if(all, [&](const std::string& entry) { return entry.starts_with(name + "="); });
    all.push_back(name + "=" + value);
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// Nothing here allocates: the child has this process's memory as it was in the middle of anything.
[[noreturn]] void become(pid_t parent, int log, int nothing, char* const* arguments,
                         char* const* environment) {
  begin_child(parent, SIGTERM);
  ::setpgid(0, 0);  // a terminal's Ctrl-C is for this process, which ends the child in order
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execve(arguments[0], arguments, environment);
  ::dprintf(STDERR_FILENO, "error: %s: can't be started: %s\n", arguments[0], std::strerror(errno));
  ::_exit(127);
}

class File {
 public:
  File(const std::filesystem::path& path, int flags)
      : number_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (number_ < 0) throw no_child(path.string());
  }
  ~File() { ::close(number_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Every process with its parent.
std::map<pid_t, pid_t> processes() {
  std::map<pid_t, pid_t> parents;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t process = std::atoi(entry.path().filename().c_str());
    if (process <= 0) continue;
    std::ifstream file(entry.path() / "stat");
    std::string line;
    std::getline(file, line);
    const size_t name_end = line.rfind(')');  // a name may hold anything
    if (name_end == std::string::npos || name_end + 4 > line.size()) continue;
    parents[process] = std::atoi(line.c_str() + name_end + 4);
  }
  return parents;
}

std::vector<pid_t> descendants(pid_t ancestor) {
  const std::map<pid_t, pid_t> parents = processes();
  std::vector<pid_t> found;
  for (const auto& [process, parent] : parents) {
    pid_t above = parent;
    for (auto next = parents.find(above); above != ancestor && next != parents.end();
         next = parents.find(above))
      above = next->second;
    if (above == ancestor) found.push_back(process);
  }
  return found;
}

void kill_descendants() {
  const auto deadline = Clock::now() + kKillTime;
  for (auto left = descendants(::getpid()); !left.empty() && Clock::now() < deadline;
       left = descendants(::getpid())) {
    for (const pid_t process : left) ::kill(process, SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
}

}  // namespace

ChildRunner::ChildRunner() {
  ::sigemptyset(&signals_);
  ::sigaddset(&signals_, SIGCHLD);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action;
    ::sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::sigaddset(&signals_, number);  // nohup means it
  }
  ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of a program become ours, and can be found
}

ChildRunner::~ChildRunner() {
  const timespec now = {0, 0};
  while (::sigtimedwait(&signals_, nullptr, &now) > 0) {
  }  // what came too late must not end the process now
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

ProgramEnd ChildRunner::run(const Program& program, milliseconds limit,
                            const std::function<void()>& each_second) {
  const auto begin = Clock::now();
  const File log(program.log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
  const File nothing("/dev/null", O_RDONLY);
  std::vector<std::string> arguments = program.arguments, environment = environment_of(program);
  const std::vector<char*> argument_list = pointers(arguments), variables = pointers(environment);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw no_child("fork");
  if (child == 0)
    become(parent, log.number(), nothing.number(), argument_list.data(), variables.data());
  ProgramEnd end = await(child, limit, each_second);
  kill_descendants();
  end.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return end;
}

// Until `until`, a second has passed, a signal comes or the child has ended; true: it has.
bool ChildRunner::wait(pid_t child, Clock::time_point until, int& status) {
  const auto left = std::min<Clock::duration>(until - Clock::now(), std::chrono::seconds(1));
  const auto ns = std::max<int64_t>(0, std::chrono::nanoseconds(left).count());
  const timespec time = {ns / 1'000'000'000, ns % 1'000'000'000};
  const int signal = ::sigtimedwait(&signals_, nullptr, &time);
  if (signal > 0 && signal != SIGCHLD) ++num_requests_;
  return ::waitpid(child, &status, WNOHANG) == child;
}

ProgramEnd ChildRunner::await(pid_t child, milliseconds limit,
                              const std::function<void()>& each_second) {
  const auto deadline = Clock::now() + limit;
  int status = 0;
  while (!wait(child, deadline, status)) {
    if (is_stopped() || Clock::now() >= deadline) {
      end(child);
      return {is_stopped() ? ProgramEnd::Kind::stopped : ProgramEnd::Kind::too_long};
    }
    each_second();
  }
  // who asked this process may have asked the child too
  if (is_stopped()) return {ProgramEnd::Kind::stopped};
  if (WIFSIGNALED(status)) return {ProgramEnd::Kind::signalled, WTERMSIG(status)};
  return {ProgramEnd::Kind::exited, WEXITSTATUS(status)};
}

// In order where it can: launchers clean up after themselves. Another signal is less patient.
void ChildRunner::end(pid_t child) {
  ::kill(child, SIGTERM);
  const auto deadline = Clock::now() + kGrace;
  const int so_far = num_requests_;
  int status = 0;
  while (!wait(child, deadline, status) && Clock::now() < deadline && num_requests_ == so_far) {
  }
}

}  // namespace cleave
