// From which checkpoint a run goes on, and what becomes of the others.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/checkpoint_directory.h"
#include "cleave/error.h"
#include "training.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

/// Checkpoints of steps 2, 4 and 6, by two ranks.
class ResumeChoice : public testing::Test {
 protected:
  ResumeChoice() : config(resume_config(folder_)), straight(resume_config(folder_, "straight")) {
    config.checkpoint.every_steps = 2;
    config.checkpoint.keep = 10;
    before = train_until(6, config, layout);
  }

  fs::path shard(int64_t step, int rank) const {
    return checkpoint_of(config, step) / message("rank-0000", rank, ".safetensors");
  }
  fs::path manifest(int64_t step) const { return checkpoint_of(config, step) / "manifest.json"; }

  std::vector<int64_t> steps_in(const fs::path& directory) const {
    std::vector<int64_t> steps;
    for (const FoundCheckpoint& found : find_checkpoints(directory)) steps.push_back(found.step);
    std::sort(steps.begin(), steps.end());
    return steps;
  }
  std::string pointer_in(const fs::path& directory) const {
    return read_file(directory / "latest");
  }
  fs::path earlier(int n) const { return config.checkpoint.directory / message("earlier-", n); }

  /// Goes on to `step`.
  Training resume(const std::string& from, int64_t step) {
    config.checkpoint.resume = from;
    return train_until(step, config, layout);
  }
  void expect_as_straight(const Training& training, int64_t step) {
    expect_same_steps(training, train_until(step, straight, layout));
    expect_same_values(read_checkpoint(checkpoint_of(config, step)),
                       read_checkpoint(checkpoint_of(straight, step)));
  }
  /// Both ranks refuse it as a mistake of the user's, nothing was run and nothing was moved.
  void expect_refused(const std::string& from, const std::vector<std::string>& texts) {
    config.checkpoint.resume = from;
    config.train.steps = 8;
    const Training training = train(config, layout);
    EXPECT_TRUE(training.is_config_error);
    for (const std::string& text : texts)
      for (const std::string& error : training.rank_errors)
        EXPECT_NE(error.find(text), std::string::npos) << error << "\nwanted " << text;
    expect_same_steps(training, before);
    EXPECT_EQ(steps_in(config.checkpoint.directory), (std::vector<int64_t>{2, 4, 6}));
    EXPECT_FALSE(fs::exists(earlier(1)));
  }

  const Layout layout = zero(1, 2);

 private:
  const TemporaryFolder folder_;

 protected:
  RunConfig config, straight;
  Training before;
};

void expect_text(const Training& training, const std::string& text) {
  EXPECT_NE(training.console.find(text), std::string::npos)
      << training.console << "\nwanted " << text;
}

TEST_F(ResumeChoice, AutoTakesTheNewest) {
  const Training training = resume("auto", 8);
  expect_text(training, message("resumed: ", checkpoint_of(config, 6).string(), ", step 6 of 8, ",
                                6 * 12 * 16, " tokens, saved by "));
  EXPECT_EQ(steps_in(config.checkpoint.directory), (std::vector<int64_t>{2, 4, 6, 8}));
  EXPECT_EQ(pointer_in(config.checkpoint.directory), "step-00000008\n");
  expect_as_straight(training, 8);
}

TEST_F(ResumeChoice, NoneBeginsAnewAndMovesTheOldOnesAsideWhole) {
  const auto newest = read_files(checkpoint_of(config, 6));
  const Training training = resume("none", 3);
  expect_text(training, "are now in " + earlier(1).string());
  EXPECT_EQ(steps_in(earlier(1)), (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(pointer_in(earlier(1)), "step-00000006\n");
  EXPECT_EQ(read_files(earlier(1) / "step-00000006"), newest);
  EXPECT_EQ(steps_in(config.checkpoint.directory), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(pointer_in(config.checkpoint.directory), "step-00000003\n");
  expect_as_straight(training, 3);

  resume("none", 2);
  EXPECT_EQ(steps_in(earlier(1)), (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(steps_in(earlier(2)), (std::vector<int64_t>{2, 3}));
}

TEST_F(ResumeChoice, ANamedOlderOneMovesTheNewerOnesAside) {
  const Training training = resume(checkpoint_of(config, 2), 5);
  EXPECT_EQ(steps_in(earlier(1)), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(pointer_in(earlier(1)), "step-00000006\n");
  EXPECT_EQ(steps_in(config.checkpoint.directory), (std::vector<int64_t>{2, 4, 5}));
  EXPECT_EQ(pointer_in(config.checkpoint.directory), "step-00000005\n");
  expect_as_straight(training, 5);
}

TEST_F(ResumeChoice, OneThatWasMovedAsideCanBeNamed) {
  resume("none", 2);
  resume(earlier(1) / "step-00000004", 7);
  train_until(7, straight, layout);
  expect_same_values(read_checkpoint(checkpoint_of(config, 7)),
                     read_checkpoint(checkpoint_of(straight, 7)));
  EXPECT_EQ(steps_in(earlier(1)), (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(steps_in(earlier(2)), (std::vector<int64_t>{2}));
}

TEST_F(ResumeChoice, AnotherRunsDirectoryGivesItsNewestAndStaysAsItIs) {
  const fs::path theirs = config.checkpoint.directory;
  damage(shard(6, 0), 5000);
  const auto pointer = pointer_in(theirs);
  config.checkpoint.directory = theirs.parent_path() / "ours";
  const Training training = resume(theirs, 8);
  expect_text(training, "passed over: " + (theirs / "step-00000006").string());
  EXPECT_EQ(steps_in(theirs), (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(pointer_in(theirs), pointer);
  EXPECT_EQ(steps_in(config.checkpoint.directory), (std::vector<int64_t>{6, 8}));
  expect_as_straight(training, 8);
}

TEST_F(ResumeChoice, AutoPassesOverDamagedOnesAndSaysWhy) {
  damage(shard(6, 1), fs::file_size(shard(6, 1)) - 1);
  fs::resize_file(manifest(4), 1000);
  const Training training = resume("auto", 7);
  expect_text(training, message("checkpoint: passed over: ", shard(6, 1).string(), ": bytes "));
  expect_text(training, message("checkpoint: passed over: ", manifest(4).string(), ": "));
  expect_text(training, message("resumed: ", checkpoint_of(config, 2).string(), ", step 2 of 7"));
  EXPECT_EQ(steps_in(earlier(1)), (std::vector<int64_t>{4, 6}));
  expect_as_straight(training, 7);
}

TEST_F(ResumeChoice, AutoPassesOverWhatIsNoCheckpointOfThisVersion) {
  const std::string now = "\"format_version\": 1";
  std::string newer = read_file(manifest(6));
  newer.replace(newer.find(now), now.size(), "\"format_version\": 2");
  write_file(manifest(6), newer);
  write_file(manifest(4), "{\"weight_map\": {}}");
  const Training training = resume("auto", 7);
  expect_text(training, manifest(6).string() + ": ");
  expect_text(training, "written by a newer version (format 2, this program reads 1)");
  expect_text(training, manifest(4).string() + ": is no checkpoint's manifest");
  expect_as_straight(training, 7);
}

TEST_F(ResumeChoice, AnUnfinishedFolderIsNone) {
  fs::rename(checkpoint_of(config, 6), checkpoint_of(config, 6).string() + ".tmp");
  fs::remove(manifest(4));
  const Training training = resume("auto", 7);
  expect_text(training, "it has no manifest.json");
  expect_text(training, "step 2 of 7");
  expect_as_straight(training, 7);
}

TEST_F(ResumeChoice, AnEmptyPointerIsSaidAndDoesNoHarm) {
  write_file(config.checkpoint.directory / "latest", "");
  const Training training = resume("auto", 7);
  expect_text(training, (config.checkpoint.directory / "latest").string() + ": is empty");
  expect_text(training, "step 6 of 7");
  EXPECT_EQ(pointer_in(config.checkpoint.directory), "step-00000007\n");
  expect_as_straight(training, 7);
}

TEST_F(ResumeChoice, AMissingPointerDoesNoHarm) {
  fs::remove(config.checkpoint.directory / "latest");
  expect_as_straight(resume("auto", 7), 7);
}

// Wherever it is: the ranks share the work of looking.
TEST_F(ResumeChoice, ADamagedOneThatIsNamedIsRefusedByFileAndOffset) {
  for (const int rank : {0, 1})
    for (const size_t offset : {size_t{9}, size_t{fs::file_size(shard(4, rank))} - 1}) {
      damage(shard(4, rank), offset);
      expect_refused(checkpoint_of(config, 4),
                     {"checkpoint.resume", shard(4, rank).string() + ": bytes ", "have checksum "});
      damage(shard(4, rank), offset);
    }
}

TEST_F(ResumeChoice, ANamedOneThatIsCutIsRefused) {
  fs::resize_file(shard(4, 0), 3000);
  expect_refused(checkpoint_of(config, 4), {shard(4, 0).string() + ": has 3000 bytes, not "});
}

TEST_F(ResumeChoice, ANamedOneWithSwappedShardsIsRefused) {
  fs::rename(shard(4, 0), shard(4, 0).string() + "x");
  fs::rename(shard(4, 1), shard(4, 0));
  fs::rename(shard(4, 0).string() + "x", shard(4, 1));
  expect_refused(checkpoint_of(config, 4), {checkpoint_of(config, 4).string()});
}

TEST_F(ResumeChoice, ANamedOneOfANewerVersionIsRefused) {
  const std::string now = "\"format_version\": 1";
  std::string newer = read_file(manifest(4));
  newer.replace(newer.find(now), now.size(), "\"format_version\": 2");
  write_file(manifest(4), newer);
  expect_refused(checkpoint_of(config, 4),
                 {"written by a newer version (format 2, this program reads 1)"});
}

TEST_F(ResumeChoice, ANamedFolderThatIsNotThereIsRefused) {
  expect_refused(config.checkpoint.directory / "nowhere", {"nowhere: is no complete checkpoint"});
}

TEST_F(ResumeChoice, AutoRefusesWhenAllAreDamagedAndNamesEach) {
  damage(shard(6, 0), 5000);
  fs::remove(shard(4, 1));
  fs::resize_file(manifest(2), 10);
  expect_refused("auto", {"none of the 3 checkpoints in " + config.checkpoint.directory.string(),
                          shard(6, 0).string(), shard(4, 1).string(), manifest(2).string(),
                          "\"none\" to begin anew"});
}

}  // namespace
}  // namespace cleave::test
