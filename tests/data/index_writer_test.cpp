#include "data/index_writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <limits>

#include "data/indexed_tokens.h"
#include "data_fixture.h"

namespace cleave::test {
namespace {

class IndexWriterTest : public DataTest {
 protected:
  /// Writes an index of documents of these lengths, and a .bin of that size without contents.
  void write(const std::vector<int64_t>& lengths) {
    OutputFile file(path("c.idx"));
    IndexWriter writer(file);
    int64_t bytes = 0;
    for (const int64_t length : lengths) {
      writer.add_document(length);
      bytes += length;
    }
    writer.finish();
    file.sync();
    file.publish();
    write_file(path("c.bin"), "");
    ASSERT_EQ(::truncate(path("c.bin").c_str(), bytes), 0);
  }
};

TEST_F(IndexWriterTest, WritesTheBytesOfTheFormat) {
  write({3, 0, 4});
  EXPECT_EQ(read_file(path("c.idx")), make_index({3, 0, 4}, 1, 1).bytes());
}

TEST_F(IndexWriterTest, CutsDocumentsThatAreLongerThanALengthCanSay) {
  constexpr int64_t kFull = std::numeric_limits<int32_t>::max();
  write({5, kFull - 1, kFull, 2 * kFull + 7, 1});
  const IndexFile index(path("c.idx"));
  EXPECT_EQ(index.num_documents(), 5);
  ASSERT_EQ(index.num_sequences(), 8);
  const int64_t expected[] = {5, kFull - 1, kFull, 0, kFull, kFull, 7, 1};
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(index.length(i), expected[i]);
  const IndexedTokens tokens(path("c.bin"), path("c.idx"));
  EXPECT_EQ(tokens.num_tokens(), 5 + kFull - 1 + kFull + 2 * kFull + 7 + 1);
}

TEST_F(IndexWriterTest, WritesMoreDocumentsThanItsBuffersHold) {
  const std::vector<int64_t> lengths(300000, 2);
  write(lengths);
  EXPECT_EQ(read_file(path("c.idx")),
            make_index(std::vector<int32_t>(lengths.begin(), lengths.end()), 1, 1).bytes());
}

TEST_F(IndexWriterTest, OutputAppearsOnlyWhenPublished) {
  {
    OutputFile file(path("out"));
    file.append("text");
    file.sync();
    EXPECT_FALSE(std::filesystem::exists(path("out")));
    EXPECT_TRUE(holds(config_error([&] { OutputFile again(path("out")); }), {"another run"}));
  }
  EXPECT_FALSE(std::filesystem::exists(path("out.tmp")));
  write_file(path("out.tmp"), "left over from a killed run");
  OutputFile file(path("out"));
  file.append("new");
  file.sync();
  file.publish();
  EXPECT_EQ(read_file(path("out")), "new");
  EXPECT_FALSE(std::filesystem::exists(path("out.tmp")));
}

TEST_F(IndexWriterTest, OutputTakesThePlaceOfFilesAlone) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0666), 0);
  std::filesystem::create_directory(path("folder"));
  for (const char* name : {"pipe", "folder"})
    EXPECT_TRUE(holds(config_error([&] { OutputFile file(path(name)); }), {name, "not a file"}));
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
  write_file(path("target"), "old");
  std::filesystem::create_symlink("target", path("link"));
  OutputFile file(path("link"));
  file.append("new");
  file.sync();
  file.publish();
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("target")), "new");
}

}  // namespace
}  // namespace cleave::test
