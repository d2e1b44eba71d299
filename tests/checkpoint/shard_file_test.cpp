#include "checkpoint/shard_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint_fixture.h"
#include "huggingface/safetensors.h"

namespace cleave::test {
namespace {

const std::atomic<bool> kNotCancelled = false;

TEST(ShardFile, OpensAsSafetensorsUnderTheTensorsNames) {
  const TemporaryFolder folder;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<ShardPart> parts = {{"whole", {Box::whole({2, 3}), 0, 6}, values},
                                        {"none", {Box::whole({2, 3}), 4, 4}, {}},
                                        {"part", {Box::whole({4, 3}), 1, 3}, {values.data(), 2}}};
  const WrittenShard written =
      write_shard(folder.path(), "rank-00002.safetensors", parts, kNotCancelled);
  const SafetensorsFile file(folder.path() / "rank-00002.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"part", "whole"}));
  EXPECT_EQ(file.find("whole")->type, ElementType::float32);
  EXPECT_EQ(file.find("whole")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.find("part")->shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(std::memcmp(file.find("whole")->bytes.data(), values.data(), 24), 0);
  const std::string bytes = read_file(file.path());
  EXPECT_EQ(written.file.size_bytes, std::ssize(bytes));
  ASSERT_EQ(written.slices.size(), 2u);
  EXPECT_EQ(written.slices[1].first, "part");
  EXPECT_EQ(std::memcmp(bytes.data() + written.slices[1].second.offset_bytes, values.data(), 8), 0);
}

TEST(ShardFile, OfARankThatSavesNothingIsAFileToo) {
  const TemporaryFolder folder;
  const WrittenShard written =
      write_shard(folder.path(), shard_file_name(123456), {}, kNotCancelled);
  EXPECT_EQ(written.file.name, "rank-123456.safetensors");
  EXPECT_EQ(written.file.size_bytes, written.file.header_bytes);
  EXPECT_TRUE(SafetensorsFile(folder.path() / written.file.name).names().empty());
}

TEST(ShardFile, TravelsAsText) {
  const TemporaryFolder folder;
  const std::vector<float> values = {1, 2, 3};
  const WrittenShard written = write_shard(
      folder.path(), "a", {{"odd \" name", {Box::whole({3}), 0, 3}, values}}, kNotCancelled);
  const WrittenShard parsed = parse_shard(to_text(written));
  EXPECT_EQ(parsed.file.name, "a");
  EXPECT_EQ(parsed.file.size_bytes, written.file.size_bytes);
  EXPECT_EQ(parsed.file.header_checksum, written.file.header_checksum);
  ASSERT_EQ(parsed.slices.size(), 1u);
  EXPECT_EQ(parsed.slices[0].first, "odd \" name");
  EXPECT_EQ(parsed.slices[0].second.slice, written.slices[0].second.slice);
  EXPECT_EQ(parsed.slices[0].second.checksum, written.slices[0].second.checksum);
}

TEST(ShardFile, LeavesNothingWhenItIsCancelled) {
  const TemporaryFolder folder;
  const std::vector<float> values(3);
  const std::atomic<bool> cancelled = true;
  const std::string error = error_of([&] {
    write_shard(folder.path(), "a", {{"x", {Box::whole({3}), 0, 3}, values}}, cancelled);
  });
  EXPECT_NE(error.find("cancelled"), std::string::npos) << error;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// More than one piece, and more than may be on its way to the disk at once.
TEST(ShardFile, WritesLongSlicesWhole) {
  const TemporaryFolder folder;
  std::vector<float> values(9'000'001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const int64_t n = std::ssize(values);
  write_shard(folder.path(), "a", {{"x", {Box::whole({n}), 0, n}, values}}, kNotCancelled);
  const SafetensorsFile file(folder.path() / "a");
  const TensorView* x = file.find("x");
  ASSERT_EQ(x->num_elements(), n);
  EXPECT_EQ(std::memcmp(x->bytes.data(), values.data(), x->bytes.size()), 0);
}

}  // namespace
}  // namespace cleave::test
