#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/shard_file.h"
#include "checkpoint_fixture.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

/// What error_of(action) says in a process of its own, whose limits and rights may be changed.
std::string error_in_child(const std::function<void()>& action) {
  int answer[2];
  EXPECT_EQ(::pipe(answer), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string error = error_of(action);
    const ssize_t written = ::write(answer[1], error.data(), error.size());
    ::_exit(written == std::ssize(error) ? 0 : 1);
  }
  ::close(answer[1]);
  std::string error(10'000, '\0');
  size_t size = 0;
  for (ssize_t n; (n = ::read(answer[0], error.data() + size, error.size() - size)) > 0;) size += n;
  ::close(answer[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  error.resize(size);
  return error;
}

/// From now on a file that grows beyond is an error, as on a disk that is full.
void limit_file_size(rlim_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

/// To a user for whom permissions count.
void leave_root() {
  if (::geteuid() != 0) return;
  const bool is_left = ::setgroups(0, nullptr) == 0 && ::setgid(65534) == 0 && ::setuid(65534) == 0;
  if (!is_left) std::abort();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(DiskFault, AFullDiskAtAnyByteLeavesTheOldCheckpoint) {
  bool was_saved = false;
  int refused = 0;
  for (rlim_t limit = 0; !was_saved; limit = limit * 5 / 4 + 100) {
    const TemporaryFolder folder;
    const std::string error = error_in_child([&] {
      CheckpointDirectory directory(folder.path());
      save(directory, row_pieces(2), 1);
      limit_file_size(limit);
      try {
        save(directory, row_pieces(2), 2);
      } catch (...) {
        directory.discard(2);
        throw;
      }
    });
    was_saved = error.empty();
    if (!was_saved) {
      ++refused;
      EXPECT_TRUE(error.starts_with(folder.path().string())) << error;
      EXPECT_TRUE(has(error, "File too large") && has(error, "check the free space")) << error;
    }
    EXPECT_EQ(find_checkpoints(folder.path()).at(0).step, was_saved ? 2 : 1);
    expect_values(folder.path() / "step-00000001", 1);
    EXPECT_FALSE(fs::exists(folder.path() / "step-00000002.tmp"));
  }
  EXPECT_GE(refused, 5);
}

TEST(DiskFault, TooLittleSpaceIsSaidBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  const int64_t pebibyte = int64_t{1} << 50;
  const std::string error = error_of([&] { directory.begin(7, pebibyte); });
  EXPECT_TRUE(error.starts_with(folder.path().string())) << error;
  EXPECT_TRUE(has(error, "step 7 needs 1127428916 MiB, but ") && has(error, " MiB are free"))
      << error;
  EXPECT_FALSE(fs::exists(CheckpointDirectory::temporary(folder.path(), 7)));
}

TEST(DiskFault, ACancelledShardIsNotWrittenToItsEnd) {
  const TemporaryFolder folder;
  const std::vector<float> values(1 << 20);
  const Slice slice = Slice::whole({1 << 20});
  const std::string error = error_in_child([&] {
    limit_file_size(10'000);  // the end is never reached
    write_shard(folder.path(), "a", {{"x", slice, values}}, true);
  });
  EXPECT_TRUE(has(error, "was cancelled")) << error;
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(DiskFault, AReadOnlyDirectoryIsRefusedBeforeTheRun) {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0555));
  const auto refusal = [&](const fs::path& path) {
    return error_in_child([&] {
      leave_root();
      CheckpointDirectory{path};
    });
  };
  EXPECT_TRUE(has(refusal(folder.path()), "can't be written: Permission denied"));
  EXPECT_TRUE(has(refusal(folder.path() / "new"), "can't be made: Permission denied"));
  fs::permissions(folder.path(), fs::perms(0755));
  write_file(folder.path() / ".lock", "");  // of an earlier run
  fs::permissions(folder.path() / ".lock", fs::perms(0666));
  fs::permissions(folder.path(), fs::perms(0555));
  EXPECT_TRUE(has(refusal(folder.path()), "can't be written: Permission denied"));
  fs::permissions(folder.path(), fs::perms(0755));
}

TEST(DiskFault, ADirectoryThatBecomesReadOnlyIsAFailedSave) {
  const TemporaryFolder folder;
  {
    CheckpointDirectory directory(folder.path());
    save(directory, one_rank(), 1);
  }
  fs::permissions(folder.path(), fs::perms(0777));
  fs::permissions(folder.path() / ".lock", fs::perms(0666));
  const std::string error = error_in_child([&] {
    leave_root();
    CheckpointDirectory directory(folder.path());
    const fs::path collected = directory.begin(2, 0);
    fs::permissions(collected, fs::perms(0555));
    write_shards(collected, one_rank(), 2);
  });
  EXPECT_TRUE(has(error, "Permission denied")) << error;
  expect_values(folder.path() / "step-00000001", 1);
}

TEST(DiskFault, AFileInThePlaceOfTheDirectoryIsRefused) {
  const TemporaryFolder folder;
  write_file(folder.path() / "file", "x");
  for (const char* name : {"file", "file/below"}) {
    const std::string error = error_of([&] { CheckpointDirectory{folder.path() / name}; });
    EXPECT_TRUE(error.starts_with((folder.path() / name).string())) << error;
    EXPECT_TRUE(has(error, "checkpoint.directory")) << error;
  }
}

}  // namespace
}  // namespace cleave::test
