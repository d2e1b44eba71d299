#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "cleave/error.h"
#include "data/dataset.h"

namespace cleave {
namespace {

std::vector<int64_t> order(int64_t n, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < n; ++i) result.push_back(shuffled_position(i, n, seed, epoch));
  return result;
}

void expect_permutation(int64_t n, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> sorted = order(n, seed, epoch), expected(n);
  std::sort(sorted.begin(), sorted.end());
  std::iota(expected.begin(), expected.end(), 0);
  ASSERT_EQ(sorted, expected) << "n " << n;
}

TEST(SampleOrder, IsAPermutationForEveryLength) {
  for (int64_t n = 1; n <= 300; ++n) expect_permutation(n, 1234, n % 5);
  for (const int64_t n : {65535, 65536, 65537, 100003}) expect_permutation(n, ~uint64_t{0}, 3);
}

TEST(SampleOrder, StaysInRangeWithoutRepeatsForHugeLengths) {
  for (const int64_t n : {(int64_t{1} << 40) + 1, (int64_t{1} << 62) + 1}) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < 10000; ++i) {
      const int64_t position = shuffled_position(n - 1 - i, n, 7, 0);
      ASSERT_TRUE(0 <= position && position < n);
      seen.insert(position);
    }
    EXPECT_EQ(seen.size(), 10000u);
  }
}

TEST(SampleOrder, DiffersBetweenSeedsAndEpochs) {
  EXPECT_EQ(order(100, 1, 0), order(100, 1, 0));
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (int64_t epoch = 0; epoch < 10; ++epoch) orders.insert(order(100, seed, epoch));
  }
  EXPECT_EQ(orders.size(), 100u);
}

/// sum (observed - expected)^2 / expected over a table of equally likely cells
double chi_square(const std::vector<int64_t>& counts) {
  const double expected =
      std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  double sum = 0;
  for (const int64_t count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(SampleOrder, EachPositionGoesEverywhereEquallyOften) {
  for (const int64_t n : {2, 3, 5, 16, 17, 30}) {
    std::vector<int64_t> counts(n * n);
    for (int64_t epoch = 0; epoch < 200 * n; ++epoch) {
      for (int64_t i = 0; i < n; ++i) ++counts[i * n + shuffled_position(i, n, 5, epoch)];
    }
    // (n-1)^2 degrees of freedom, standard deviation sqrt(2) (n-1): five of them and a bit
    const double freedom = static_cast<double>((n - 1) * (n - 1));
    EXPECT_LT(chi_square(counts), freedom + 8.0 * (n - 1) + 8) << "n " << n;
  }
}

TEST(SampleOrder, ReachesEveryPermutationOfFour) {
  std::map<std::vector<int64_t>, int64_t> counts;
  for (int64_t epoch = 0; epoch < 4800; ++epoch) ++counts[order(4, 11, epoch)];
  ASSERT_EQ(counts.size(), 24u);
  for (const auto& [permutation, count] : counts) EXPECT_NEAR(count, 200, 100);
}

TEST(SampleOrder, NeighboursAreNotKeptTogether) {
  constexpr int64_t kLength = 5000;
  std::vector<int64_t> counts(50);  // distance to the next position's sample, modulo n
  const auto positions = order(kLength, 3, 0);
  for (int64_t i = 0; i + 1 < kLength; ++i) {
    ++counts[(positions[i + 1] - positions[i] + kLength) % kLength * 50 / kLength];
  }
  EXPECT_LT(chi_square(counts), 49 + 5 * 10);
}

TEST(SampleOrder, RefusesPositionsOutsideTheEpoch) {
  EXPECT_THROW(shuffled_position(5, 5, 1, 0), RuntimeError);
  EXPECT_THROW(shuffled_position(-1, 5, 1, 0), RuntimeError);
}

TEST(BatchSlice, RanksCoverTheGlobalBatchInOrder) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int64_t batch : {12, 13}) {
      int64_t next = 0;
      for (int64_t step = 0; step < 5; ++step) {
        for (int rank = 0; rank < ranks; ++rank) {
          const BatchSlice slice = batch_slice(step, batch, rank, ranks);
          EXPECT_EQ(slice.first, next);
          EXPECT_GE(slice.count, batch / ranks);
          next += slice.count;
        }
        EXPECT_EQ(next, (step + 1) * batch);
      }
    }
  }
}

TEST(BatchSlice, CountsSequencesIn64Bits) {
  const BatchSlice slice = batch_slice(int64_t{1} << 40, 4096, 3, 4);
  EXPECT_EQ(slice.first, (int64_t{1} << 52) + 3072);
  EXPECT_EQ(slice.count, 1024);
}

}  // namespace
}  // namespace cleave
