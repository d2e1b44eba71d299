#include <gtest/gtest.h>

#include <cstdio>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/shard_file.h"
#include "checkpoint_fixture.h"
#include "cleave/error.h"

namespace cleave::test {
namespace {

namespace fs = std::filesystem;

/// A whole checkpoint of 2 ranks, to be damaged.
class Damage : public testing::Test {
 protected:
  Damage() {
    CheckpointDirectory directory(directory_.path());
    folder = save(directory, row_pieces(2), 5);
  }

  fs::path shard(int rank) const { return folder / message("rank-0000", rank, ".safetensors"); }
  fs::path manifest() const { return folder / "manifest.json"; }

  /// What is said of the folder when all of it is read.
  std::string refusal() const {
    return error_of([&] { CheckpointReader(folder).verify(); });
  }

  void expect_refused(const fs::path& file, const std::string& expected) const {
    const std::string error = refusal();
    EXPECT_TRUE(error.starts_with(file.string() + ": ")) << error << "\nwanted " << file;
    EXPECT_NE(error.find(expected), std::string::npos) << error << "\nwanted " << expected;
  }

  fs::path folder;

 private:
  TemporaryFolder directory_;
};

TEST_F(Damage, OfNoneIsFound) {
  EXPECT_EQ(refusal(), "");
  expect_values(folder, 5);
}

TEST_F(Damage, OfAnyByteOfAShardIsFoundAndPlaced) {
  for (const int rank : {0, 1}) {
    const std::string whole = read_file(shard(rank));
    for (size_t i = 0; i < whole.size(); ++i) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
      write_file(shard(rank), damaged);
      const std::string error = refusal();
      ASSERT_TRUE(error.starts_with(shard(rank).string() + ": bytes ")) << i << ": " << error;
      size_t begin = 0, end = 0;
      ASSERT_EQ(std::sscanf(error.c_str() + shard(rank).string().size(), ": bytes %zu to %zu",
                            &begin, &end),
                2);
      EXPECT_LE(begin, i) << error;
      EXPECT_LT(i, end) << error;
    }
    write_file(shard(rank), whole);
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(Damage, OfAnyByteOfTheManifestIsFoundUnlessItChangesNothing) {
  const std::string whole = read_file(manifest());
  const std::string content = to_text(read_manifest(folder));
  int refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    try {
      EXPECT_EQ(to_text(parse_manifest("m", damaged)), content) << i;
    } catch (const ConfigError& error) {
      ++refused;
      EXPECT_TRUE(std::string(error.what()).starts_with("m: ")) << error.what();
    }
  }
  EXPECT_GE(refused, std::ssize(whole) * 3 / 4);  // the rest is white space
}

TEST_F(Damage, OfAShardCutShortOrTooLongIsFound) {
  const std::string whole = read_file(shard(1));
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file(shard(1), whole.substr(0, size));
    expect_refused(shard(1), message("has ", size, " bytes, not ", whole.size()));
  }
  write_file(shard(1), whole + "x");
  expect_refused(shard(1), "bytes, not");
}

TEST_F(Damage, OfAShardCutShortWhileItIsOpenIsAnErrorWithItsName) {
  const CheckpointReader reader(folder);
  fs::resize_file(shard(1), 20);
  const std::string error = error_of([&] { reader.verify(); });
  EXPECT_TRUE(error.starts_with(shard(1).string() + ": ")) << error;
  std::vector<float> values(7);
  EXPECT_NE(error_of([&] { reader.read("model.norm.weight", Slice::whole({7}), values.data()); }),
            "");
}

TEST_F(Damage, OfAManifestCutShortIsFound) {
  const std::string whole = read_file(manifest());
  for (size_t size = 0; size + 2 < whole.size(); ++size)
    ASSERT_NE(error_of([&] { parse_manifest("m", whole.substr(0, size)); }), "") << size;
  write_file(manifest(), "");
  expect_refused(manifest(), "not valid JSON");
}

TEST_F(Damage, OfAMissingShardIsFound) {
  fs::remove(shard(0));
  expect_refused(shard(0), "No such file");
  fs::create_directory(shard(0));
  expect_refused(shard(0), "is not a regular file");
}

TEST_F(Damage, OfAMissingManifestIsFound) {
  fs::remove(manifest());
  expect_refused(folder, "no manifest.json");
}

TEST_F(Damage, OfSwappedShardsIsFound) {
  // of equal size: copies of 32 elements, in two shares of 16
  const TemporaryFolder other;
  CheckpointDirectory directory(other.path());
  const fs::path collected = directory.begin(1, 0);
  Manifest even = tiny_manifest(replicated(2), 1);
  even.tensors = {{"x", {32}, {}}};
  std::vector<WrittenShard> shards;
  for (const int rank : {0, 1}) {
    const Slice slice{Box::whole({32}), rank * 16, rank * 16 + 16};
    const std::vector<float> values(16, static_cast<float>(rank));
    shards.push_back(write_shard(collected, shard_file_name(rank), {{"x", slice, values}}, false));
  }
  add_shards(even, shards);
  folder = directory.publish(1, to_text(even));
  EXPECT_EQ(refusal(), "");
  fs::rename(shard(0), folder / "x");
  fs::rename(shard(1), shard(0));
  fs::rename(folder / "x", shard(1));
  expect_refused(shard(0), "checksum");
}

TEST_F(Damage, OfAnotherRunsManifestIsFound) {
  const TemporaryFolder other;
  CheckpointDirectory directory(other.path());
  const fs::path foreign = save(directory, row_pieces(2), 6);
  fs::copy_file(foreign / "manifest.json", manifest(), fs::copy_options::overwrite_existing);
  expect_refused(shard(0), "checksum");
  write_file(manifest(), "{\"weight_map\": {}}");
  expect_refused(manifest(), "is no checkpoint's manifest");
}

TEST_F(Damage, OfANewerFormatSaysSo) {
  std::string text = read_file(manifest());
  const std::string now = "\"format_version\": 1";
  text.replace(text.find(now), now.size(), "\"format_version\": 7");
  write_file(manifest(), text);
  expect_refused(manifest(), "written by a newer version (format 7, this program reads 1)");
}

}  // namespace
}  // namespace cleave::test
