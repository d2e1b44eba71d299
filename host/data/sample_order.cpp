// Which sample comes when: functions of (seed, epoch, step) and the data axis, with no state.
#include <bit>

#include "cleave/error.h"
#include "data/dataset.h"

namespace cleave {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
constexpr int kRounds = 8;  // 4 are a permutation that looks random; small domains need more

/// The output function of splitmix64: every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x += kGolden;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Feistel network on 2 * half_bits bits: a permutation whatever the round function is.
uint64_t permute(uint64_t value, int half_bits, uint64_t key) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits;
  uint64_t right = value & mask;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    const uint64_t scrambled = mix((key ^ right) + round * kGolden) & mask;
    const uint64_t next = left ^ scrambled;
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

int64_t shuffled_position(int64_t position, int64_t n, uint64_t seed, int64_t epoch) {
  CLEAVE_CHECK(0 <= position && position < n, "position ", position, " of ", n);
  const int half_bits = (std::bit_width(static_cast<uint64_t>(n - 1)) + 1) / 2;
  const uint64_t key = mix(mix(seed) + static_cast<uint64_t>(epoch));
  auto value = static_cast<uint64_t>(position);
  // Cycle walking: what lands outside 0..n-1 is permuted again. The domain is smaller than 4n, so
  // this takes less than 4 turns on average, and it ends since the walk is on a cycle through
  // `position`.
  do {
    value = permute(value, half_bits, key);
  } while (value >= static_cast<uint64_t>(n));
  return static_cast<int64_t>(value);
}

BatchSlice batch_slice(int64_t step, int64_t global_batch_size, int data_rank, int data_size) {
  CLEAVE_CHECK(step >= 0 && 0 <= data_rank && data_rank < data_size, "step ", step, ", data rank ",
               data_rank, " of ", data_size);
  const int64_t begin = data_rank * global_batch_size / data_size;
  const int64_t end = (data_rank + int64_t{1}) * global_batch_size / data_size;
  return {step * global_batch_size + begin, end - begin};
}

}  // namespace cleave
