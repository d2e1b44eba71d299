#include "data/index_writer.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "cleave/error.h"
#include "data/index_file.h"

namespace cleave {
namespace {

constexpr int32_t kLongestSequence = std::numeric_limits<int32_t>::max();

template <typename T>
std::string_view as_bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

}  // namespace

IndexWriter::IndexWriter(OutputFile& file) : file_(file) {
  CLEAVE_CHECK(file.size_bytes() == 0, file.path().string(), " has ", file.size_bytes(), " bytes");
  file_.append(std::string(kIndexHeaderBytes, '\0'));  // the counts are known at the end
}

void IndexWriter::add_document(int64_t num_tokens) {
  for (; num_tokens >= kLongestSequence; num_tokens -= kLongestSequence) {
    add_sequence(kLongestSequence);
  }
  add_sequence(num_tokens);
  ++num_documents_;
}

void IndexWriter::add_sequence(int64_t num_tokens) {
  file_.append(as_bytes(static_cast<int32_t>(num_tokens)));
  ++num_sequences_;
}

void IndexWriter::finish() {
  append_pointers();
  append_boundaries();
  write_header();
}

void IndexWriter::for_each_length(
    const std::function<void(int64_t sequence, int32_t length)>& visit) {
  std::vector<int32_t> block(size_t{1} << 16);
  for (int64_t begin = 0; begin < num_sequences_;) {
    const int64_t count = std::min<int64_t>(block.size(), num_sequences_ - begin);
    file_.read_back(kIndexHeaderBytes + begin * int64_t{sizeof(int32_t)},
                    {reinterpret_cast<char*>(block.data()), count * sizeof(int32_t)});
    for (int64_t i = 0; i < count; ++i) visit(begin + i, block[i]);
    begin += count;
  }
}

void IndexWriter::append_pointers() {
  int64_t pointer = 0;
  for_each_length([&](int64_t, int32_t length) {
    file_.append(as_bytes(pointer));
    pointer += length;  // byte tokens
  });
}

void IndexWriter::append_boundaries() {
  file_.append(as_bytes(int64_t{0}));
  for_each_length([&](int64_t sequence, int32_t length) {
    if (length < kLongestSequence) file_.append(as_bytes(sequence + 1));
  });
}

void IndexWriter::write_header() {
  std::string header(kIndexMagic);
  header += as_bytes(kIndexVersion);
  header += as_bytes(TokenType::u8);
  header += as_bytes(static_cast<uint64_t>(num_sequences_));
  header += as_bytes(static_cast<uint64_t>(num_documents_ + 1));
  CLEAVE_CHECK(header.size() == kIndexHeaderBytes, "header of ", header.size(), " bytes");
  file_.overwrite(0, header);
}

}  // namespace cleave
