#include "process/plugin_child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace cleave {
namespace {

using std::chrono::milliseconds;

ChildOutcome run(const std::function<void(const Send&)>& work, int limit_ms = 60'000) {
  return run_in_child(work, milliseconds(limit_ms));
}

TEST(PluginChild, HandsBackWhatItSent) {
  const std::string large(1 << 20, 'x');  // more than a pipe holds
  const ChildOutcome child = run([&](const Send& send) {
    send("one");
    send("");
    send(large);
  });
  EXPECT_EQ(child.fate, "");
  EXPECT_EQ(child.sent, (std::vector<std::string>{"one", "", large}));
}

TEST(PluginChild, IsAnotherProcess) {
  int value = 1;
  run([&](const Send&) { value = 2; });
  EXPECT_EQ(value, 1);
}

TEST(PluginChild, NamesTheSignalThatEndedIt) {
  const ChildOutcome child = run([](const Send& send) {
    send("begun");
    std::abort();
  });
  EXPECT_EQ(child.fate, "ended the process by signal 6 (Aborted)");
  EXPECT_EQ(child.sent, (std::vector<std::string>{"begun"}));
}

TEST(PluginChild, EndsBySignalsThatThisProcessIgnoresOrBlocks) {
  const auto before = ::signal(SIGTERM, SIG_IGN);
  const ChildOutcome child = run([](const Send&) { ::raise(SIGTERM); });
  ::signal(SIGTERM, before);
  EXPECT_EQ(child.fate, "ended the process by signal 15 (Terminated)");
}

TEST(PluginChild, NamesTheExitCode) {
  EXPECT_EQ(run([](const Send&) { ::_exit(3); }).fate, "ended the process with exit code 3");
  EXPECT_EQ(run([](const Send&) { ::_exit(0); }).fate, "ended the process with exit code 0");
}

TEST(PluginChild, IsKilledWhenItHangs) {
  const ChildOutcome child = run([](const Send&) { ::pause(); }, 200);
  EXPECT_EQ(child.fate, "did not return within 0.2 s");
}

TEST(PluginChild, IsKilledWhenItClosesItsPipesAndHangs) {
  const ChildOutcome child = run(
      [](const Send&) {
        for (int file = 3; file < 64; ++file) ::close(file);
        ::pause();
      },
      200);
  EXPECT_EQ(child.fate, "did not return within 0.2 s");
}

TEST(PluginChild, KeepsTheEndOfWhatItPrintedInOneLine) {
  const ChildOutcome child = run([](const Send&) {
    for (int i = 0; i < 100'000; ++i) std::fprintf(stderr, "line %d\n\n", i);
    std::abort();
  });
  EXPECT_TRUE(child.output.ends_with("line 99998 line 99999")) << child.output;
  EXPECT_LT(child.output.size(), 500u);
}

TEST(PluginChild, ReportsAnExceptionThatNobodyCaught) {
  const ChildOutcome child =
      run([](const Send&) { std::thread([] { throw std::runtime_error("no licence"); }).join(); });
  EXPECT_EQ(child.fate, "ended the process by signal 6 (Aborted)");
  EXPECT_NE(child.output.find("no licence"), std::string::npos) << child.output;
}

TEST(PluginChild, LeavesNoProcessAndNoOpenFile) {
  const auto open_files = [] {
    int count = 0;
    for (int file = 0; file < 256; ++file) count += ::dup2(file, file) == file;
    return count;
  };
  const int before = open_files();
  run([](const Send&) { ::pause(); }, 50);
  run([](const Send& send) { send("done"); });
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // no child, dead or alive
}

}  // namespace
}  // namespace cleave
