#include "plugin_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "begin_child.h"
#include "cleave/error.h"

namespace cleave {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kKeptOutput = 400;  // characters; the end says why
constexpr size_t kMaxOutput = 1 << 16;
constexpr uint32_t kEnd = 0xffffffff;  // in place of a length: `work` has returned

RuntimeError no_child(const char* call) {
  return RuntimeError(message("a plugin can't be tried out in a child process: ", call, ": ",
                              std::strerror(errno), "; raise the limits (ulimit -u, ulimit -n)"));
}

class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw no_child("pipe");
  }
  ~Pipe() {
    close_writer();
    ::close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_writer() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  /// Appends what there is; false at the end of the stream.
  bool read_into(std::string& text) const {
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(reader(), buffer.data(), buffer.size());
    if (count > 0) text.append(buffer.data(), static_cast<size_t>(count));
    return count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN));
  }

 private:
  std::array<int, 2> ends_;
};

void write_all(int file, const void* data, size_t length) {
  const auto* bytes = static_cast<const char*>(data);
  while (length > 0) {
    const ssize_t count = ::write(file, bytes, length);
    if (count < 0 && errno != EINTR) ::_exit(1);
    const size_t written = static_cast<size_t>(std::max<ssize_t>(count, 0));
    bytes += written;
    length -= written;
  }
}

[[noreturn]] void run_child(pid_t parent, const Pipe& answer, const Pipe& output,
                            const std::function<void(const Send&)>& work) {
  begin_child(parent, SIGKILL);
  ::dup2(output.writer(), STDOUT_FILENO);
  ::dup2(output.writer(), STDERR_FILENO);
  work([&](std::string_view text) {
    const auto length = static_cast<uint32_t>(text.size());
    write_all(answer.writer(), &length, sizeof length);
    write_all(answer.writer(), text.data(), text.size());
  });
  write_all(answer.writer(), &kEnd, sizeof kEnd);
  ::_exit(0);  // not exit: this process's buffers and destructors are not the child's
}

/// Reads both pipes until the child has closed its answer; false when it sent nothing for too long.
bool collect(const Pipe& answer, const Pipe& output, std::chrono::milliseconds limit,
             std::string& sent, std::string& printed) {
  auto deadline = Clock::now() + limit;
  std::array<pollfd, 2> waits = {pollfd{answer.reader(), POLLIN, 0},
                                 pollfd{output.reader(), POLLIN, 0}};
  for (bool open = true; open;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    if (::poll(waits.data(), waits.size(), static_cast<int>(left.count())) <= 0) continue;
    if (waits[1].revents != 0 && !output.read_into(printed)) waits[1].fd = -1;
    if (printed.size() > kMaxOutput) printed.erase(0, printed.size() - kKeptOutput);
    if (waits[0].revents == 0) continue;
    open = answer.read_into(sent);
    deadline = Clock::now() + limit;
  }
  return true;
}

/// The texts in `sent`; true when the child came to its end.
bool split(std::string_view sent, std::vector<std::string>& texts) {
  uint32_t length = 0;
  while (sent.size() >= sizeof length) {
    std::memcpy(&length, sent.data(), sizeof length);
    if (length == kEnd) return true;
    sent.remove_prefix(sizeof length);
    if (sent.size() < length) return false;
    texts.emplace_back(sent.substr(0, length));
    sent.remove_prefix(length);
  }
  return false;
}

/// What became of a child that has closed its answer (then it is about to end) or hangs.
std::string end_of(pid_t child, std::chrono::milliseconds limit, bool hangs) {
  const auto deadline = hangs ? Clock::now() : Clock::now() + limit;
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(child, &status, WNOHANG)) == 0 && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (ended == 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return message("did not return within ", static_cast<double>(limit.count()) / 1000, " s");
  }
  if (ended == child && WIFSIGNALED(status))
    return message("ended the process by signal ", WTERMSIG(status), " (",
                   ::strsignal(WTERMSIG(status)), ")");
  if (ended == child) return message("ended the process with exit code ", WEXITSTATUS(status));
  return "ended the process";  // someone else took its status
}

std::string one_line(const std::string& text) {
  std::string line;
  for (char c : text) {
    if (static_cast<unsigned char>(c) > ' ')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line.size() <= kKeptOutput ? line : "..." + line.substr(line.size() - kKeptOutput);
}

}  // namespace

ChildOutcome run_in_child(const std::function<void(const Send&)>& work,
                          std::chrono::milliseconds limit) {
  Pipe answer, output;
  std::fflush(nullptr);  // else a child that calls exit() would print this process's buffers again
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw no_child("fork");
  if (child == 0) run_child(parent, answer, output, work);
  answer.close_writer();
  output.close_writer();

  std::string sent, printed;
  const bool closed = collect(answer, output, limit, sent, printed);
  ChildOutcome outcome;
  if (split(sent, outcome.sent)) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return outcome;
  }
  outcome.fate = end_of(child, limit, !closed);
  const int flags = ::fcntl(output.reader(), F_GETFL);
  ::fcntl(output.reader(), F_SETFL, flags | O_NONBLOCK);
  for (size_t before = printed.size() + 1; before != printed.size();) {
    before = printed.size();
    output.read_into(printed);
  }
  outcome.output = one_line(printed);
  return outcome;
}

}  // namespace cleave
