// A process that is killed before its 1st, 2nd, 3rd, ... system call: whatever it was at, what had
// been complete must be there afterwards.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint_fixture.h"
#include "cleave/error.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void run_traced(const std::function<void()>& work) {
  ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  ::raise(SIGSTOP);
  work();
  ::_exit(0);
}

/// Whether `work`, in a process of its own, came to its end before it was killed at a stop.
bool survives(int stop, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) run_traced(work);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSTOPPED(status)) << "this system lets no process be traced";
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL);
  for (int i = 0; i < stop && WIFSTOPPED(status); ++i) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (WIFSTOPPED(status)) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return false;
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  return true;
}

/// Kills `work` in the directory `before` (restored each time) at each of its system calls.
void kill_everywhere(const fs::path& before, const std::function<void(const fs::path&)>& work,
                     const std::function<void(const fs::path&)>& check) {
  bool is_done = false;
  int stops = 1;
  for (; !is_done && !testing::Test::HasFailure(); stops += 2) {  // before each call, not after it
    const TemporaryFolder folder;
    const fs::path directory = folder.path() / "ckpt";
    fs::copy(before, directory, fs::copy_options::recursive);
    is_done = survives(stops, [&] { work(directory); });
    SCOPED_TRACE(message("killed at stop ", stops));
    const CheckpointDirectory recovered(directory);
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == ".lock" || name == "latest" || entry.path().extension() == "") << name;
    }
    for (const auto& [step, checkpoint] : find_checkpoints(directory))
      expect_values(checkpoint, step);
    std::string fault;
    read_pointer(directory, fault);
    EXPECT_EQ(fault, "");
    check(directory);
  }
  EXPECT_GE(stops, 50) << "it was hardly ever killed";
}

std::vector<int64_t> steps_in(const fs::path& directory) {
  std::vector<int64_t> steps;
  for (const FoundCheckpoint& found : find_checkpoints(directory)) steps.push_back(found.step);
  return steps;
}

using Steps = std::vector<int64_t>;

TEST(KillPoints, OfASaveLeaveTheOldOrTheNewCheckpoint) {
  const TemporaryFolder folder;
  save_steps(folder.path(), one_rank(), {1});
  kill_everywhere(
      folder.path(),
      [](const fs::path& path) {
        CheckpointDirectory directory(path);
        save(directory, one_rank(), 2);
      },
      [](const fs::path& path) {
        const Steps steps = steps_in(path);
        EXPECT_TRUE(steps == Steps{1} || steps == (Steps{2, 1}));
      });
}

TEST(KillPoints, OfAReplacementLeaveOneOfTheTwo) {
  const TemporaryFolder folder;
  save_steps(folder.path(), row_pieces(2), {1});
  kill_everywhere(
      folder.path(),
      [](const fs::path& path) {
        CheckpointDirectory directory(path);
        save(directory, one_rank(), 1);
      },
      [](const fs::path& path) { EXPECT_EQ(steps_in(path), Steps{1}); });
}

TEST(KillPoints, OfRetentionLeaveTheNewest) {
  const TemporaryFolder folder;
  save_steps(folder.path(), one_rank(), {1, 2, 3});
  kill_everywhere(
      folder.path(), [](const fs::path& path) { CheckpointDirectory(path).retain(1); },
      [](const fs::path& path) { EXPECT_EQ(steps_in(path).at(0), 3); });
}

TEST(KillPoints, OfSettingAsideLeaveTheNewestWhereItIsLookedForOrNone) {
  const TemporaryFolder folder;
  save_steps(folder.path(), one_rank(), {1, 2, 3});
  kill_everywhere(
      folder.path(), [](const fs::path& path) { CheckpointDirectory(path).set_aside(-1); },
      [](const fs::path& path) {
        const Steps left = steps_in(path), aside = steps_in(path / "earlier-1");
        EXPECT_EQ(left.size() + aside.size(), 3u);
        EXPECT_TRUE(left.empty() || left[0] == 3);
      });
}

TEST(KillPoints, OfARecoveryLeaveItToTheNextOne) {
  const TemporaryFolder folder;
  save_steps(folder.path(), row_pieces(2), {1, 2, 3});
  // as a run left it that was killed while it replaced 2; one before it while it removed 3
  fs::remove(folder.path() / "latest");
  fs::rename(folder.path() / "step-00000002", folder.path() / "step-00000002.old");
  fs::rename(folder.path() / "step-00000003", folder.path() / "step-00000003.removed");
  fs::copy(folder.path() / "step-00000001", folder.path() / "step-00000002.tmp");
  kill_everywhere(
      folder.path(), [](const fs::path& path) { CheckpointDirectory{path}; },
      [](const fs::path& path) {
        EXPECT_EQ(steps_in(path), (Steps{2, 1}));
      });
}

}  // namespace
}  // namespace cleave::test
