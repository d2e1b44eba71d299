// Megatron's .idx: where each sequence lies in the .bin, and which sequences form a document.
//
// Little-endian, arrays unaligned:
//   0 magic (9 bytes) | 9 u64 version = 1 | 17 u8 token type | 18 u64 sequences S |
//   26 u64 boundaries D (documents + 1) | 34 i32 lengths[S] | i64 pointers[S] (bytes) |
//   i64 boundaries[D] (in sequences, from 0 to S) | i8 modes[S] (optional, not used)
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "data/mapped_file.h"

namespace cleave {

inline constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
inline constexpr uint64_t kIndexVersion = 1;
inline constexpr int64_t kVersionOffset = 9;
inline constexpr int64_t kTokenTypeOffset = 17;
inline constexpr int64_t kSequenceCountOffset = 18;
inline constexpr int64_t kBoundaryCountOffset = 26;
inline constexpr int64_t kIndexHeaderBytes = 34;

/// How a token is stored in the .bin; the values are the format's codes. 6 and 7 are floats.
enum class TokenType : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

int64_t token_bytes(TokenType type);

/// An open .idx whose header, size and document boundaries have been checked; lengths are not
/// negative. Pointers are as stored: only who knows the .bin can judge them.
class IndexFile {
 public:
  /// Throws ConfigError naming offset, found and expected. Allocates nothing that grows with the
  /// counts, so a damaged header can't ask for memory.
  explicit IndexFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  TokenType token_type() const { return token_type_; }
  int64_t num_sequences() const { return num_sequences_; }
  int64_t num_documents() const { return num_boundaries_ - 1; }

  int64_t length(int64_t sequence) const { return file_.load<int32_t>(length_offset(sequence)); }
  int64_t pointer(int64_t sequence) const { return file_.load<int64_t>(pointer_offset(sequence)); }
  int64_t pointer_offset(int64_t sequence) const {
    return kIndexHeaderBytes + 4 * num_sequences_ + 8 * sequence;
  }

 private:
  void read_header();
  void check_size() const;
  void check_lengths() const;
  void check_boundaries() const;
  int64_t length_offset(int64_t sequence) const { return kIndexHeaderBytes + 4 * sequence; }
  int64_t boundary_offset(int64_t i) const { return pointer_offset(num_sequences_) + 8 * i; }

  MappedFile file_;
  TokenType token_type_ = TokenType::u8;
  int64_t num_sequences_ = 0;
  int64_t num_boundaries_ = 0;
};

/// "<prefix><suffix>"; appended, since a prefix may hold dots ("corpus-v1.2").
std::filesystem::path with_suffix(const std::filesystem::path& prefix, std::string_view suffix);

/// ConfigError "<path>: byte <offset>: <what>; <write the pair again>".
[[noreturn]] void fail_damaged(const std::filesystem::path& path, int64_t offset,
                               const std::string& what);

}  // namespace cleave
