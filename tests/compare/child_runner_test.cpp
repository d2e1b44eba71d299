// Programs end in time, and nothing of them stays.
#include "compare/child_runner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "support/temporary_folder.h"

namespace cleave::test {
namespace {

using Kind = ProgramEnd::Kind;
using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};

class Children : public testing::Test {
 protected:
  Program script(const std::string& text) const {
    return {{"/bin/sh", "-c", "cd '" + folder_.path().string() + "'; " + text}, {}, log()};
  }
  std::filesystem::path log() const { return folder_.path() / "log.txt"; }
  std::string content(const std::filesystem::path& file) const {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  bool is_gone(const char* pid_file) const {
    const int process = std::stoi(content(folder_.path() / pid_file));
    return ::kill(process, 0) != 0 && errno == ESRCH;
  }

  TemporaryFolder folder_;
  ChildRunner runner_;
};

TEST_F(Children, StatusAndBothOutputsAreKept) {
  Program program = script("echo to stdout $X; echo to stderr >&2; exit 3");
  program.environment = {{"X", "of the environment"}};
  const ProgramEnd end = runner_.run(program, kLong, [] {});
  EXPECT_EQ(end.kind, Kind::exited);
  EXPECT_EQ(end.code, 3);
  EXPECT_EQ(content(log()), "to stdout of the environment\nto stderr\n");
  EXPECT_FALSE(runner_.is_stopped());
}

TEST_F(Children, AProgramThatIsNotThereSaysSo) {
  const ProgramEnd end = runner_.run({{"/no/such/program"}, {}, log()}, kLong, [] {});
  EXPECT_EQ(end.code, 127);
  EXPECT_EQ(content(log()),
            "error: /no/such/program: can't be started: No such file or directory\n");
}

TEST_F(Children, ASignalThatEndsOneIsNamed) {
  const ProgramEnd end = runner_.run(script("kill -SEGV $$"), kLong, [] {});
  EXPECT_EQ(end.kind, Kind::signalled);
  EXPECT_EQ(end.code, SIGSEGV);
}

TEST_F(Children, OneThatHangsEndsAtItsLimit) {
  EXPECT_EQ(runner_.run(script("sleep 1000"), milliseconds(50), [] {}).kind, Kind::too_long);
}

TEST_F(Children, WhatLeftTheProcessGroupEndsToo) {
  const ProgramEnd end = runner_.run(
      script("setsid sh -c \"trap : TERM HUP; echo \\$\\$ > away; sleep 1000; sleep 1000\" & "
             "until [ -s away ]; do sleep 0.01; done"),
      kLong, [] {});
  EXPECT_EQ(end.kind, Kind::exited);
  EXPECT_TRUE(is_gone("away"));
}

TEST_F(Children, ASignalToUsEndsTheProgramAndNotUs) {
  const ProgramEnd end = runner_.run(script("echo $$ > main; sleep 1000"), kLong, [&] {
    if (!content(folder_.path() / "main").empty()) ::kill(::getpid(), SIGTERM);
  });
  EXPECT_EQ(end.kind, Kind::stopped);
  EXPECT_TRUE(runner_.is_stopped());
  EXPECT_TRUE(is_gone("main"));
}

}  // namespace
}  // namespace cleave::test
