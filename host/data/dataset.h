// Tokens on disk -> numbered samples -> this rank's slice of a global batch (DESIGN: an epoch has
// n = floor((T-1)/S) samples; sequence number s is position s mod n of epoch s div n).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "config/run_config.h"

namespace cleave {

/// All tokens of a corpus in order, documents concatenated; memory-mapped.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual int64_t num_tokens() const = 0;
  /// Copies tokens [begin, begin + out.size()).
  virtual void read(int64_t begin, std::span<int64_t> out) const = 0;
  /// An upper bound that the storage type gives (255 for bytes): a larger vocabulary needs no scan.
  /// INT64_MAX for signed types, whose tokens may be negative.
  virtual int64_t largest_possible_token() const = 0;
};

/// `path`: "<prefix>" of <prefix>.bin and <prefix>.idx (Megatron), or a file that ends in .txt
/// (bytes). Missing, damaged or inconsistent files: ConfigError naming file, offset, found and
/// expected.
std::unique_ptr<TokenSource> open_tokens(const std::filesystem::path& path);

/// Position of sample `position` (0..n-1) of `epoch`: a permutation that is a function of
/// (seed, epoch) alone and takes O(1) memory (Feistel network with cycle walking).
int64_t shuffled_position(int64_t position, int64_t n, uint64_t seed, int64_t epoch);

class Dataset {
 public:
  /// Throws ConfigError when there are fewer than sequence_length + 1 tokens.
  Dataset(std::unique_ptr<TokenSource> tokens, const DataConfig& config);

  int64_t num_tokens() const;
  int64_t samples_per_epoch() const;
  /// Which sample of the corpus sequence number `sequence` (counted over the whole run) is.
  int64_t sample_index(int64_t sequence) const;
  /// Inputs and targets (one token later), S each, of sequence number `sequence`.
  void read(int64_t sequence, std::span<int64_t> inputs, std::span<int64_t> targets) const;

  /// The first token < 0 or >= vocab_size among part `part` of `parts` equal parts of the corpus:
  /// its index, or num_tokens() when there is none. Ranks scan one part each and take the minimum,
  /// so that every layout reports the same token.
  int64_t find_invalid_token(int64_t vocab_size, int part, int parts) const;
  int64_t token(int64_t index) const;

 private:
  std::unique_ptr<TokenSource> tokens_;
  int64_t sequence_length_;
  bool shuffle_;
  uint64_t seed_;
};

/// Sequence numbers of data rank `data_rank`'s slice of global batch `step` (from 0): first, count.
struct BatchSlice {
  int64_t first;
  int64_t count;
};
BatchSlice batch_slice(int64_t step, int64_t global_batch_size, int data_rank, int data_size);

}  // namespace cleave
