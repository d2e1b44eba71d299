#include "data/index_file.h"

#include <algorithm>
#include <bit>

#include "cleave/error.h"

namespace cleave {

// tokens and index fields are copied from the file as they are
static_assert(std::endian::native == std::endian::little);

std::filesystem::path with_suffix(const std::filesystem::path& prefix, std::string_view suffix) {
  std::filesystem::path path = prefix;
  path += suffix;
  return path;
}

void fail_damaged(const std::filesystem::path& path, int64_t offset, const std::string& what) {
  throw ConfigError(message(path.string(), ": byte ", offset, ": ", what,
                            "; the file is damaged or of another format, write the .bin and .idx "
                            "again (host prepare, or Megatron's preprocess_data)"));
}

int64_t token_bytes(TokenType type) {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8:
      return 1;
    case TokenType::i16:
    case TokenType::u16:
      return 2;
    case TokenType::i32:
      return 4;
    case TokenType::i64:
      return 8;
  }
  throw RuntimeError(message("token type ", static_cast<int>(type), " has no size"));
}

namespace {

constexpr std::string_view kTokenTypes = "1 (u8), 2 (i8), 3 (i16), 4 (i32), 5 (i64) or 8 (u16)";

TokenType to_token_type(uint8_t code, const std::filesystem::path& path) {
  switch (code) {
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 8:
      return static_cast<TokenType>(code);
    case 6:
    case 7:
      fail_damaged(path, kTokenTypeOffset,
                   message("token type = ", int{code}, " (", code == 6 ? "float64" : "float32",
                           "), expected whole numbers: ", kTokenTypes));
    default:
      fail_damaged(path, kTokenTypeOffset,
                   message("token type = ", int{code}, ", expected ", kTokenTypes));
  }
}

/// The count stored at `offset`. At `item_bytes` each, more than the file can hold is refused here,
/// so that no later product of counts can overflow.
int64_t read_count(const MappedFile& file, int64_t offset, std::string_view what,
                   int64_t item_bytes) {
  const auto count = file.load<uint64_t>(offset);
  const int64_t largest = (file.size_bytes() - kIndexHeaderBytes) / item_bytes;
  if (count > static_cast<uint64_t>(largest)) {
    fail_damaged(file.path(), offset,
                 message(what, " = ", count, ", expected at most ", largest, " in a file of ",
                         file.size_bytes(), " bytes"));
  }
  return static_cast<int64_t>(count);
}

}  // namespace

IndexFile::IndexFile(const std::filesystem::path& path) : file_(path) {
  read_header();
  check_size();
  check_lengths();
  check_boundaries();
}

void IndexFile::read_header() {
  const std::string_view head(reinterpret_cast<const char*>(file_.data()),
                              std::min<int64_t>(file_.size_bytes(), kIndexMagic.size()));
  if (head != kIndexMagic.substr(0, head.size())) {
    fail_damaged(path(), 0, "the file does not begin with the magic MMIDIDX\\0\\0");
  }
  if (file_.size_bytes() < kIndexHeaderBytes) {
    fail_damaged(path(), file_.size_bytes(),
                 message("the file ends within its header, expected at least ", kIndexHeaderBytes,
                         " bytes"));
  }
  const auto version = file_.load<uint64_t>(kVersionOffset);
  if (version != kIndexVersion) {
    fail_damaged(path(), kVersionOffset,
                 message("version = ", version, ", expected ", kIndexVersion));
  }
  token_type_ = to_token_type(file_.load<uint8_t>(kTokenTypeOffset), path());
  num_sequences_ = read_count(file_, kSequenceCountOffset, "number of sequences", 4 + 8);
  num_boundaries_ = read_count(file_, kBoundaryCountOffset, "number of document boundaries", 8);
  if (num_boundaries_ == 0) {
    fail_damaged(path(), kBoundaryCountOffset,
                 "number of document boundaries = 0, expected documents + 1");
  }
}

void IndexFile::check_size() const {
  const int64_t expected = boundary_offset(num_boundaries_);
  const int64_t with_modes = expected + num_sequences_;
  if (file_.size_bytes() == expected || file_.size_bytes() == with_modes) return;
  fail_damaged(path(), std::min(file_.size_bytes(), expected),
               message("the file has ", file_.size_bytes(), " bytes, expected ", expected, " (or ",
                       with_modes, " with modes) for ", num_sequences_, " sequences and ",
                       num_boundaries_, " document boundaries"));
}

void IndexFile::check_lengths() const {
  for (int64_t i = 0; i < num_sequences_; ++i) {
    if (length(i) < 0) {
      fail_damaged(path(), length_offset(i),
                   message("length of sequence ", i, " = ", length(i), ", expected 0 or more"));
    }
  }
}

void IndexFile::check_boundaries() const {
  int64_t previous = 0;
  for (int64_t i = 0; i < num_boundaries_; ++i) {
    const auto boundary = file_.load<int64_t>(boundary_offset(i));
    // the first lies at 0, the last at the end; equal neighbours are a document without sequences
    const int64_t smallest = i == num_boundaries_ - 1 ? num_sequences_ : previous;
    const int64_t largest = i == 0 ? 0 : num_sequences_;
    if (boundary < smallest || boundary > largest) {
      fail_damaged(
          path(), boundary_offset(i),
          message("document boundary ", i, " of ", num_boundaries_, " = ", boundary, ", expected ",
                  smallest == largest ? message(largest) : message(smallest, " to ", largest)));
    }
    previous = boundary;
  }
}

}  // namespace cleave
