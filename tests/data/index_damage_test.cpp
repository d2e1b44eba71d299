// Every way in which a .bin/.idx pair can be damaged is a ConfigError that names the place.
#include <limits>

#include "data_fixture.h"

namespace cleave::test {
namespace {

class IndexDamageTest : public DataTest {
 protected:
  /// The error that the pair gives; `places` must be in it beside the file's name.
  void expect_refused(const Index& index, std::vector<std::string> places) {
    write_pair(path("c"), index, bin_);
    expect_error(std::move(places));
  }
  void expect_refused(const std::string& idx, std::vector<std::string> places) {
    write_file(path("c.bin"), bin_);
    write_file(path("c.idx"), idx);
    expect_error(std::move(places));
  }
  void expect_error(std::vector<std::string> places) {
    places.push_back(path("c.idx").string());
    EXPECT_TRUE(holds(config_error([&] { open_tokens(path("c")); }), places));
  }

  const std::string bin_ = bytes_of<uint16_t>({1, 2, 3, 4, 5, 6});
  const Index good_ = make_index({2, 0, 1, 3}, 8, 2);
};

TEST_F(IndexDamageTest, GoodPairOpens) {
  write_pair(path("c"), good_, bin_);
  EXPECT_EQ(open_tokens(path("c"))->num_tokens(), 6);
}

TEST_F(IndexDamageTest, RefusesIndexCutAnywhere) {
  const std::string whole = good_.bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    expect_refused(whole.substr(0, size), {size == 0 ? "empty" : "byte"});
  }
  for (size_t size = whole.size() + 1; size < whole.size() + good_.lengths.size(); ++size) {
    expect_refused(whole + std::string(size - whole.size(), '\0'), {"expected"});
  }
  expect_refused(whole + std::string(good_.lengths.size() + 1, '\0'), {"expected"});
}

TEST_F(IndexDamageTest, RefusesWrongHeader) {
  Index index = good_;
  index.magic = std::string("NUMPYXX\0\0", 9);
  expect_refused(index, {"byte 0", "MMIDIDX"});
  index = good_;
  index.version = 2;
  expect_refused(index, {"byte 9", "version = 2", "expected 1"});
  for (const int code : {0, 6, 7, 9, 255}) {
    index = good_;
    index.token_type = static_cast<uint8_t>(code);
    expect_refused(index, {"byte 17", "token type = " + std::to_string(code), "expected"});
  }
}

TEST_F(IndexDamageTest, RefusesCountsThatTheFileCannotHold) {
  for (const uint64_t count : {uint64_t{6}, uint64_t{1} << 32, uint64_t{1} << 60, uint64_t{1} << 61,
                               uint64_t{1} << 63, ~uint64_t{0}}) {
    for (const size_t offset : {18, 26}) {
      std::string idx = good_.bytes();
      idx.replace(offset, 8, bytes_of<uint64_t>({count}));
      expect_refused(idx, {"byte", "expected"});
    }
  }
  Index index = good_;
  index.boundaries = {};
  expect_refused(index, {"byte 26", "boundaries = 0"});
}

TEST_F(IndexDamageTest, RefusesNegativeLength) {
  Index index = good_;
  index.lengths[2] = -1;
  expect_refused(index, {"byte 42", "sequence 2 = -1", "expected 0 or more"});
  index.lengths[2] = std::numeric_limits<int32_t>::min();
  expect_refused(index, {"byte 42", "sequence 2"});
}

TEST_F(IndexDamageTest, RefusesPointersOutsideTheBin) {
  // pointers begin at byte 34 + 4 * 4
  for (const int64_t pointer :
       {int64_t{-2}, int64_t{12}, int64_t{14}, int64_t{1} << 62,
        std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max() - 1}) {
    Index index = good_;
    index.pointers[2] = pointer;
    expect_refused(index, {"byte 66", "pointer of sequence 2", "= " + std::to_string(pointer),
                           "12 bytes of " + path("c.bin").string()});
  }
  Index index = good_;
  index.pointers[0] = 1;
  expect_refused(index, {"byte 50", "pointer of sequence 0", "= 1", "multiple of 2"});
  index = good_;
  index.pointers[1] = 14;  // an empty sequence has no tokens to read, its pointer is wrong anyway
  expect_refused(index, {"byte 58", "pointer of sequence 1"});
}

TEST_F(IndexDamageTest, RefusesBinShorterThanTheIndexNeeds) {
  for (size_t size = 1; size < bin_.size(); ++size) {
    write_pair(path("c"), good_, bin_.substr(0, size));
    expect_error({"pointer of sequence", std::to_string(size) + " bytes of"});
  }
  write_pair(path("c"), good_, "");
  EXPECT_TRUE(
      holds(config_error([&] { open_tokens(path("c")); }), {path("c.bin").string(), "empty"}));
}

TEST_F(IndexDamageTest, RefusesWrongDocumentBoundaries) {
  Index index = good_;
  index.boundaries = {0, 1, 2, 3, 3};
  expect_refused(index, {"byte 114", "boundary 4 of 5 = 3", "expected 4"});
  index.boundaries = {0, 1, 2, 3, 5};
  expect_refused(index, {"byte 114", "boundary 4 of 5 = 5", "expected 4"});
  index.boundaries = {1, 1, 2, 3, 4};
  expect_refused(index, {"byte 82", "boundary 0 of 5 = 1", "expected 0"});
  index.boundaries = {0, 3, 2, 3, 4};
  expect_refused(index, {"byte 98", "boundary 2 of 5 = 2", "expected 3 to 4"});
  index.boundaries = {0, 1, -1, 3, 4};
  expect_refused(index, {"byte 98", "boundary 2 of 5 = -1"});
  index.boundaries = {0, 1, int64_t{1} << 60, 3, 4};
  expect_refused(index, {"byte 98", "boundary 2 of 5"});
  index.boundaries = {0};
  expect_refused(index, {"boundary 0 of 1 = 0", "expected 4"});
}

TEST_F(IndexDamageTest, AnyChangedByteIsRefusedOrReadable) {
  const std::string whole = good_.bytes();
  write_file(path("c.bin"), bin_);
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const char flipped : {'\x01', '\x80', '\xff', '\x07'}) {
      std::string idx = whole;
      idx[i] ^= flipped;
      write_file(path("c.idx"), idx);
      config_error([&] { all_tokens(*open_tokens(path("c"))); });  // no crash, no other error
    }
  }
}

}  // namespace
}  // namespace cleave::test
