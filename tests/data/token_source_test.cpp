#include <unistd.h>

#include <limits>
#include <numeric>

#include "data_fixture.h"

namespace cleave::test {
namespace {

class TokenSourceTest : public DataTest {};

TEST_F(TokenSourceTest, ReadsTextAsBytes) {
  write_file(path("a.txt"), std::string("A\0\xff\n", 4));
  const auto tokens = open_tokens(path("a.txt"));
  EXPECT_EQ(all_tokens(*tokens), (std::vector<int64_t>{65, 0, 255, 10}));
  EXPECT_EQ(tokens->largest_possible_token(), 255);
}

template <typename T>
void expect_reads_type(const std::filesystem::path& prefix, uint8_t code) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> stored = {Limits::min(), 0, 1, 2, 3, Limits::max()};
  write_pair(prefix, make_index({2, 4}, code, sizeof(T)), bytes_of(stored));
  const auto tokens = open_tokens(prefix);
  EXPECT_EQ(all_tokens(*tokens), std::vector<int64_t>(stored.begin(), stored.end()));
  EXPECT_EQ(tokens->largest_possible_token(),
            Limits::is_signed ? std::numeric_limits<int64_t>::max() : int64_t{Limits::max()});
}

TEST_F(TokenSourceTest, ReadsEveryTokenType) {
  expect_reads_type<uint8_t>(path("u8"), 1);
  expect_reads_type<int8_t>(path("i8"), 2);
  expect_reads_type<int16_t>(path("i16"), 3);
  expect_reads_type<int32_t>(path("i32"), 4);
  expect_reads_type<int64_t>(path("i64"), 5);
  expect_reads_type<uint16_t>(path("u16"), 8);
}

TEST_F(TokenSourceTest, ReadsDocumentsOfZeroAndOneToken) {
  const std::vector<uint16_t> stored = {10, 11, 12, 13};
  write_pair(path("c"), make_index({0, 1, 0, 0, 3, 0}, 8, 2), bytes_of(stored));
  EXPECT_EQ(all_tokens(*open_tokens(path("c"))), (std::vector<int64_t>{10, 11, 12, 13}));
}

TEST_F(TokenSourceTest, OpensCorpusOfEmptyDocumentsOnly) {
  write_pair(path("c"), make_index({0, 0}, 8, 2), "unused");
  EXPECT_EQ(open_tokens(path("c"))->num_tokens(), 0);
  write_pair(path("d"), make_index({}, 8, 2), "unused");
  EXPECT_EQ(open_tokens(path("d"))->num_tokens(), 0);
}

TEST_F(TokenSourceTest, ReadsDocumentsOfSeveralSequencesAndModes) {
  Index index = make_index({1, 2, 1}, 8, 2);
  index.boundaries = {0, 2, 2, 3};
  index.modes = std::string(3, '\1');
  write_pair(path("c"), index, bytes_of<uint16_t>({5, 6, 7, 8}));
  EXPECT_EQ(all_tokens(*open_tokens(path("c"))), (std::vector<int64_t>{5, 6, 7, 8}));
}

TEST_F(TokenSourceTest, ReadsAnyRangeOfSequencesThatAreNotContiguous) {
  std::vector<uint16_t> stored(40);
  std::iota(stored.begin(), stored.end(), 0);
  // backwards, with an overlap (30..), a gap, empty ones and a contiguous pair (10..12, 13..14)
  const Index index{.lengths = {5, 3, 2, 0, 4, 1, 0},
                    .pointers = {60, 20, 26, 80, 64, 0, 0},
                    .boundaries = {0, 7}};
  write_pair(path("c"), index, bytes_of(stored));
  const auto tokens = open_tokens(path("c"));
  const std::vector<int64_t> expected = {30, 31, 32, 33, 34, 10, 11, 12, 13, 14, 32, 33, 34, 35, 0};
  ASSERT_EQ(tokens->num_tokens(), 15);
  for (int64_t begin = 0; begin <= 15; ++begin) {
    for (int64_t count = 0; begin + count <= 15; ++count) {
      const auto first = expected.begin() + begin;
      EXPECT_EQ(read_tokens(*tokens, begin, count), std::vector<int64_t>(first, first + count));
    }
  }
}

TEST_F(TokenSourceTest, RefusesReadsOutsideTheCorpus) {
  write_pair(path("c"), make_index({4}, 8, 2), bytes_of<uint16_t>({5, 6, 7, 8}));
  write_file(path("c.txt"), "abcd");
  for (const auto& tokens : {open_tokens(path("c")), open_tokens(path("c.txt"))}) {
    EXPECT_THROW(read_tokens(*tokens, 0, 5), RuntimeError);
    EXPECT_THROW(read_tokens(*tokens, 4, 1), RuntimeError);
    EXPECT_THROW(read_tokens(*tokens, -1, 1), RuntimeError);
    EXPECT_THROW(read_tokens(*tokens, std::numeric_limits<int64_t>::max(), 2), RuntimeError);
  }
}

TEST_F(TokenSourceTest, ReadsBehindFourGibibytes) {
  constexpr int64_t kItem = 4;
  constexpr int64_t kLength = (int64_t{1} << 29) + 1;  // three of them: 2^32 < bytes, sparse
  Index index = make_index({kLength, kLength, kLength}, 4, kItem);
  write_pair(path("c"), index, "");
  ASSERT_EQ(::truncate(path("c.bin").c_str(), 3 * kLength * kItem), 0);
  {
    std::fstream bin(path("c.bin"), std::ios::in | std::ios::out | std::ios::binary);
    bin.seekp(3 * kLength * kItem - 5 * kItem);
    bin << bytes_of<int32_t>({1, 2, 3, 4, 5});
  }
  DataConfig config{
      .path = path("c"), .sequence_length = 4, .shuffle = false, .seed = 1, .ignore_token = {}};
  const Dataset dataset(open_tokens(path("c")), config);
  ASSERT_EQ(dataset.num_tokens(), 3 * kLength);
  EXPECT_EQ(dataset.token(3 * kLength - 1), 5);
  const int64_t last = dataset.samples_per_epoch() - 1;
  ASSERT_EQ(last, (3 * kLength - 1) / 4 - 1);
  std::vector<int64_t> inputs(4), targets(4);
  dataset.read(last, inputs, targets);
  // 3 * 2^29 + 3 tokens: the last sample ends two tokens before the end
  EXPECT_EQ(inputs, (std::vector<int64_t>{0, 0, 1, 2}));
  EXPECT_EQ(targets, (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_F(TokenSourceTest, SaysWhatToWriteInsteadOfOneFileOfAPair) {
  write_pair(path("v1.2"), make_index({1}, 8, 2), "ab");
  EXPECT_EQ(open_tokens(path("v1.2"))->num_tokens(), 1);
  for (const char* name : {"v1.2.bin", "v1.2.idx"}) {
    EXPECT_TRUE(holds(config_error([&] { open_tokens(path(name)); }),
                      {path(name).string(), "write \"" + path("v1.2").string() + "\""}));
  }
}

TEST_F(TokenSourceTest, SaysWhatIsMissing) {
  const auto error = [&](const char* name) {
    return config_error([&] { open_tokens(path(name)); });
  };
  EXPECT_TRUE(holds(error("none.txt"), {path("none.txt").string(), "No such file"}));
  EXPECT_TRUE(holds(error("none"), {path("none.bin").string(), path("none.idx").string()}));
  write_file(path("text.txt"), "abc");
  EXPECT_TRUE(holds(error("text"), {"write \"" + path("text.txt").string() + "\""}));
  write_file(path("text.md"), "abc");
  EXPECT_TRUE(holds(error("text.md"), {"host prepare"}));
  EXPECT_TRUE(holds(error("."), {"folder"}));
  write_file(path("half.bin"), "abc");
  EXPECT_TRUE(holds(error("half"), {path("half.idx").string(), "No such file"}));
  write_file(path("other.idx"), make_index({1}, 8, 2).bytes());
  EXPECT_TRUE(holds(error("other"), {path("other.bin").string(), "No such file"}));
}

TEST_F(TokenSourceTest, RefusesEmptyAndIrregularFiles) {
  write_file(path("empty.txt"), "");
  EXPECT_TRUE(holds(config_error([&] { open_tokens(path("empty.txt")); }),
                    {path("empty.txt").string(), "empty"}));
  std::filesystem::create_directory(path("folder.txt"));
  EXPECT_TRUE(
      holds(config_error([&] { open_tokens(path("folder.txt")); }), {"not a regular file"}));
}

}  // namespace
}  // namespace cleave::test
