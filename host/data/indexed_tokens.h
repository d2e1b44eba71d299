// Tokens of a Megatron .bin/.idx pair: the sequences in the order of the .idx, concatenated.
#pragma once

#include <vector>

#include "data/dataset.h"
#include "data/index_file.h"
#include "data/mapped_file.h"

namespace cleave {

/// Sequences that follow each other in the .bin too are merged into runs. The usual file is one
/// run, so an index of any size costs no memory once it has been checked.
class IndexedTokens final : public TokenSource {
 public:
  /// Throws ConfigError when either file is damaged or they do not belong together.
  IndexedTokens(const std::filesystem::path& bin, const std::filesystem::path& idx);

  int64_t num_tokens() const override { return num_tokens_; }
  int64_t num_documents() const { return num_documents_; }
  void read(int64_t begin, std::span<int64_t> out) const override;
  int64_t largest_possible_token() const override;

 private:
  struct Run {
    int64_t first_token;
    int64_t byte_offset;
  };
  void add_sequence(const IndexFile& index, int64_t sequence);
  void check_pointer(const IndexFile& index, int64_t sequence) const;
  void copy_tokens(int64_t byte_offset, std::span<int64_t> out) const;

  MappedFile bin_;
  TokenType token_type_ = TokenType::u8;
  int64_t token_bytes_ = 1;
  int64_t num_tokens_ = 0;
  int64_t num_documents_ = 0;
  int64_t run_end_byte_ = -1;  ///< where the last run ends; used while the runs are formed
  std::vector<Run> runs_;      ///< ascending first_token; none is empty
};

}  // namespace cleave
