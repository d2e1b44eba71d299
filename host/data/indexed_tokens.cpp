#include "data/indexed_tokens.h"

#include <algorithm>
#include <limits>

#include "cleave/error.h"

namespace cleave {

IndexedTokens::IndexedTokens(const std::filesystem::path& bin, const std::filesystem::path& idx)
    : bin_(bin) {
  const IndexFile index(idx);
  token_type_ = index.token_type();
  token_bytes_ = token_bytes(token_type_);
  num_documents_ = index.num_documents();
  for (int64_t i = 0; i < index.num_sequences(); ++i) add_sequence(index, i);
  runs_.shrink_to_fit();
}

void IndexedTokens::add_sequence(const IndexFile& index, int64_t sequence) {
  check_pointer(index, sequence);
  const int64_t length = index.length(sequence);
  if (length == 0) return;
  const int64_t pointer = index.pointer(sequence);
  if (pointer != run_end_byte_) runs_.push_back({num_tokens_, pointer});
  run_end_byte_ = pointer + length * token_bytes_;
  num_tokens_ += length;
}

void IndexedTokens::check_pointer(const IndexFile& index, int64_t sequence) const {
  const int64_t pointer = index.pointer(sequence);
  const int64_t length = index.length(sequence);
  const auto fail = [&](const std::string& expected) {
    fail_damaged(index.path(), index.pointer_offset(sequence),
                 message("pointer of sequence ", sequence, " (", length, " tokens of ",
                         token_bytes_, " bytes) = ", pointer, ", expected ", expected));
  };
  if (pointer % token_bytes_ != 0) fail(message("a multiple of ", token_bytes_));
  // divided, not multiplied: pointer + length * token_bytes_ may overflow
  if (pointer < 0 || pointer > bin_.size_bytes() ||
      length > (bin_.size_bytes() - pointer) / token_bytes_) {
    fail(message("a sequence within the ", bin_.size_bytes(), " bytes of ", bin_.path().string()));
  }
}

void IndexedTokens::read(int64_t begin, std::span<int64_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  CLEAVE_CHECK(begin >= 0 && count <= num_tokens_ && begin <= num_tokens_ - count, "tokens [",
               begin, ", ", begin, " + ", count, ") of ", num_tokens_);
  if (count == 0) return;
  const auto after = [](int64_t token, const Run& run) { return token < run.first_token; };
  auto next = std::upper_bound(runs_.begin(), runs_.end(), begin, after);
  for (int64_t done = 0; done < count; ++next) {
    const Run& run = *(next - 1);
    const int64_t run_end = next == runs_.end() ? num_tokens_ : next->first_token;
    const int64_t token = begin + done;
    const int64_t part = std::min(count - done, run_end - token);
    copy_tokens(run.byte_offset + (token - run.first_token) * token_bytes_,
                out.subspan(done, part));
    done += part;
  }
}

int64_t IndexedTokens::largest_possible_token() const {
  switch (token_type_) {
    case TokenType::u8:
      return std::numeric_limits<uint8_t>::max();
    case TokenType::u16:
      return std::numeric_limits<uint16_t>::max();
    default:
      return std::numeric_limits<int64_t>::max();  // signed: negative tokens must be looked for
  }
}

namespace {

template <typename T>
void widen(const std::byte* source, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, source + i * sizeof(T), sizeof(T));
    out[i] = value;
  }
}

}  // namespace

void IndexedTokens::copy_tokens(int64_t byte_offset, std::span<int64_t> out) const {
  const std::byte* source = bin_.data() + byte_offset;
  switch (token_type_) {
    case TokenType::u8:
      return widen<uint8_t>(source, out);
    case TokenType::i8:
      return widen<int8_t>(source, out);
    case TokenType::i16:
      return widen<int16_t>(source, out);
    case TokenType::i32:
      return widen<int32_t>(source, out);
    case TokenType::i64:
      return widen<int64_t>(source, out);
    case TokenType::u16:
      return widen<uint16_t>(source, out);
  }
}

}  // namespace cleave
