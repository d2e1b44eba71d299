#include "data/dataset.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cleave/error.h"

namespace cleave {
namespace {

void check_enough_tokens(int64_t num_tokens, const DataConfig& config) {
  const int64_t length = config.sequence_length;
  CLEAVE_CHECK(length >= 1, "sequence_length = ", length);
  if (num_tokens > length) return;
  const std::string advice = num_tokens >= 2 ? message("set data.sequence_length to at most ",
                                                       num_tokens - 1, " or give more data")
                                             : "give more data";
  throw ConfigError(
      message(config.path.string(), ": ", num_tokens, " tokens are no sample: floor((", num_tokens,
              " - 1) / data.sequence_length) = 0 with data.sequence_length = ", length,
              ", which needs ", length, " + 1 tokens; ", advice));
}

/// True when a token of the block is negative or >= vocab_size. One pass without branches: the top
/// bit of (t | vocab_size - 1 - t) is set exactly for such t.
bool has_invalid_token(std::span<const int64_t> tokens, int64_t vocab_size) {
  const auto largest = static_cast<uint64_t>(vocab_size - 1);
  uint64_t bits = 0;
  for (const int64_t token : tokens) {
    const auto value = static_cast<uint64_t>(token);
    bits |= value | (largest - value);
  }
  return bits >> 63 != 0;
}

}  // namespace

Dataset::Dataset(std::unique_ptr<TokenSource> tokens, const DataConfig& config)
    : tokens_(std::move(tokens)),
      sequence_length_(config.sequence_length),
      shuffle_(config.shuffle),
      seed_(config.seed) {
  check_enough_tokens(tokens_->num_tokens(), config);
}

int64_t Dataset::num_tokens() const {
  return tokens_->num_tokens();
}

int64_t Dataset::samples_per_epoch() const {
  return (num_tokens() - 1) / sequence_length_;
}

int64_t Dataset::sample_index(int64_t sequence) const {
  CLEAVE_CHECK(sequence >= 0, "sequence ", sequence);
  const int64_t n = samples_per_epoch();
  const int64_t position = sequence % n;
  return shuffle_ ? shuffled_position(position, n, seed_, sequence / n) : position;
}

void Dataset::read(int64_t sequence, std::span<int64_t> inputs, std::span<int64_t> targets) const {
  const auto length = static_cast<size_t>(sequence_length_);
  CLEAVE_CHECK(inputs.size() == length && targets.size() == length, "inputs ", inputs.size(),
               ", targets ", targets.size(), ", sequence_length ", length);
  const int64_t begin = sample_index(sequence) * sequence_length_;
  tokens_->read(begin, inputs);
  std::copy(inputs.begin() + 1, inputs.end(), targets.begin());
  tokens_->read(begin + sequence_length_, targets.last(1));
}

int64_t Dataset::find_invalid_token(int64_t vocab_size, int part, int parts) const {
  CLEAVE_CHECK(0 <= part && part < parts, "part ", part, " of ", parts);
  const int64_t total = num_tokens();
  if (tokens_->largest_possible_token() < vocab_size) return total;
  // quotient and remainder apart: total * part may overflow
  const auto bound = [&](int64_t i) { return total / parts * i + total % parts * i / parts; };
  std::array<int64_t, 4096> buffer;
  const int64_t end = bound(part + int64_t{1});
  for (int64_t begin = bound(part); begin < end; begin += buffer.size()) {
    const std::span block(buffer.data(), std::min<size_t>(buffer.size(), end - begin));
    tokens_->read(begin, block);
    if (!has_invalid_token(block, vocab_size)) continue;
    const auto invalid = [=](int64_t token) { return token < 0 || token >= vocab_size; };
    return begin + (std::find_if(block.begin(), block.end(), invalid) - block.begin());
  }
  return total;
}

int64_t Dataset::token(int64_t index) const {
  int64_t value;
  tokens_->read(index, {&value, 1});
  return value;
}

}  // namespace cleave
