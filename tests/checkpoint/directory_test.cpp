#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint_fixture.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

std::vector<int64_t> steps_in(const fs::path& directory) {
  std::vector<int64_t> steps;
  for (const FoundCheckpoint& found : find_checkpoints(directory)) steps.push_back(found.step);
  return steps;
}

/// Names, but the lock's.
std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().filename() != ".lock") names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

using Steps = std::vector<int64_t>;
using Names = std::vector<std::string>;

TEST(CheckpointNames, HaveAtLeastEightDigits) {
  EXPECT_EQ(step_folder_name(50), "step-00000050");
  EXPECT_EQ(step_folder_name(1234567890), "step-1234567890");
}

TEST(CheckpointNames, OfOthersAreLetBe) {
  const TemporaryFolder folder;
  for (const char* name : {"step-00000007", "step-1234567890", "step-7", "step-000000007",
                           "step-0000000x", "step-00000008.tmp", "earlier-1", "step-"})
    fs::create_directory(folder.path() / name);
  write_file(folder.path() / "step-00000009", "a file");
  EXPECT_EQ(steps_in(folder.path()), (Steps{1234567890, 7}));
  EXPECT_TRUE(find_checkpoints(folder.path() / "missing").empty());
}

TEST(CheckpointDirectory, PublishesACheckpointAndPointsToIt) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "made" / "here";
  CheckpointDirectory directory(path);
  const fs::path collected = directory.begin(50, 1000);
  EXPECT_EQ(collected, CheckpointDirectory::temporary(path, 50));
  const Manifest manifest = write_shards(collected, row_pieces(3), 50);
  EXPECT_TRUE(find_checkpoints(path).empty());
  const fs::path published = directory.publish(50, to_text(manifest));
  EXPECT_EQ(published, path / "step-00000050");
  expect_values(published, 50);
  std::string fault = "?";
  EXPECT_EQ(read_pointer(path, fault)->step, 50);
  EXPECT_EQ(fault, "");
  EXPECT_EQ(names_in(path), (Names{"latest", "step-00000050"}));
}

TEST(CheckpointDirectory, ReplacesACheckpointOfTheSameStep) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  save(directory, flat_pieces(5), 3);
  save(directory, one_rank(), 3);
  EXPECT_EQ(names_in(folder.path()), (Names{"latest", "step-00000003"}));
  EXPECT_EQ(names_in(folder.path() / "step-00000003"),
            (Names{"manifest.json", "rank-00000.safetensors"}));
}

TEST(CheckpointDirectory, BeginsAnewAfterWhatWasDiscarded) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  write_file(directory.begin(1, 0) / "rest", "x");
  EXPECT_TRUE(fs::is_empty(directory.begin(1, 0)));
  directory.discard(1);
  directory.discard(2);
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(CheckpointDirectory, KeepsTheNewestThatOpen) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  for (const int64_t step : {1, 2, 3, 4, 5}) save(directory, row_pieces(2), step);
  fs::remove(folder.path() / "step-00000004" / "rank-00001.safetensors");
  fs::remove(folder.path() / "step-00000001" / "manifest.json");
  fs::create_directory(folder.path() / "mine");
  directory.retain(9);
  EXPECT_EQ(steps_in(folder.path()), (Steps{5, 4, 3, 2, 1}));
  directory.retain(2);
  EXPECT_EQ(names_in(folder.path()),
            (Names{"latest", "mine", "step-00000003", "step-00000004", "step-00000005"}));
  directory.retain(1);
  EXPECT_EQ(steps_in(folder.path()), (Steps{5}));
}

TEST(CheckpointDirectory, SetsLaterCheckpointsAside) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  EXPECT_FALSE(directory.set_aside(-1));
  for (const int64_t step : {1, 2, 3}) save(directory, one_rank(), step);
  EXPECT_FALSE(directory.set_aside(3));
  EXPECT_EQ(directory.set_aside(1), folder.path() / "earlier-1");
  EXPECT_EQ(names_in(folder.path()), (Names{"earlier-1", "step-00000001"}));
  EXPECT_EQ(names_in(folder.path() / "earlier-1"),
            (Names{"latest", "step-00000002", "step-00000003"}));
  EXPECT_EQ(directory.set_aside(-1), folder.path() / "earlier-2");
  EXPECT_EQ(names_in(folder.path()), (Names{"earlier-1", "earlier-2"}));
  expect_values(folder.path() / "earlier-1" / "step-00000003", 3);
}

TEST(CheckpointPointer, ThatNamesNothingIsAFaultAndNoMore) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path());
  std::string fault = "?";
  EXPECT_FALSE(read_pointer(folder.path(), fault));
  EXPECT_EQ(fault, "");
  save(directory, one_rank(), 1);
  for (const std::string text : {"", "\n", "step-00000002", "../step-00000001", "x\ny"}) {
    write_file(folder.path() / "latest", text);
    EXPECT_FALSE(read_pointer(folder.path(), fault)) << text;
    EXPECT_TRUE(fault.starts_with((folder.path() / "latest").string())) << fault;
  }
  write_file(folder.path() / "latest", std::string(10'000, 'x'));
  EXPECT_FALSE(read_pointer(folder.path(), fault));
  save(directory, one_rank(), 2);
  EXPECT_EQ(read_pointer(folder.path(), fault)->step, 2);
}

TEST(CheckpointLock, IsHeldByOneRun) {
  const TemporaryFolder folder;
  const auto refusal = [&] { return error_of([&] { CheckpointDirectory{folder.path()}; }); };
  {
    const CheckpointDirectory first(folder.path());
    EXPECT_NE(refusal().find("another run saves its checkpoints there"), std::string::npos);
  }
  EXPECT_EQ(refusal(), "");
}

TEST(CheckpointLock, OfAKilledRunIsFree) {
  const TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const CheckpointDirectory held(folder.path());
    ssize_t ignored = ::write(ready[1], "x", 1);
    (void)ignored;
    ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_NE(error_of([&] { CheckpointDirectory{folder.path()}; }), "");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(error_of([&] { CheckpointDirectory{folder.path()}; }), "");
}

}  // namespace
}  // namespace cleave::test
