#include <algorithm>
#include <limits>
#include <numeric>

#include "data_fixture.h"

namespace cleave::test {
namespace {

/// Tokens in memory; -1 and the like allowed.
class ListTokens final : public TokenSource {
 public:
  explicit ListTokens(std::vector<int64_t> tokens,
                      int64_t largest = std::numeric_limits<int64_t>::max())
      : tokens_(std::move(tokens)), largest_(largest) {}
  int64_t num_tokens() const override { return static_cast<int64_t>(tokens_.size()); }
  void read(int64_t begin, std::span<int64_t> out) const override {
    std::copy_n(tokens_.begin() + begin, out.size(), out.begin());
  }
  int64_t largest_possible_token() const override { return largest_; }

 private:
  std::vector<int64_t> tokens_;
  int64_t largest_;
};

DataConfig data_config(int64_t sequence_length, bool shuffle = false, uint64_t seed = 1) {
  return {.path = "corpus",
          .sequence_length = sequence_length,
          .shuffle = shuffle,
          .seed = seed,
          .ignore_token = {}};
}

/// Token i is i.
Dataset counting(int64_t num_tokens, const DataConfig& config) {
  std::vector<int64_t> tokens(static_cast<size_t>(num_tokens));
  std::iota(tokens.begin(), tokens.end(), 0);
  return Dataset(std::make_unique<ListTokens>(std::move(tokens)), config);
}

TEST(Dataset, CountsSamplesByTheEquation) {
  constexpr int64_t kLength = 5;
  EXPECT_EQ(counting(kLength + 1, data_config(kLength)).samples_per_epoch(), 1);
  for (int64_t k = 2; k < 6; ++k) {
    EXPECT_EQ(counting(k * kLength, data_config(kLength)).samples_per_epoch(), k - 1);
    EXPECT_EQ(counting(k * kLength + 1, data_config(kLength)).samples_per_epoch(), k);
  }
  EXPECT_EQ(counting(2, data_config(1)).samples_per_epoch(), 1);
}

TEST(Dataset, RefusesFewerTokensThanOneSample) {
  EXPECT_TRUE(holds(config_error([] { counting(5, data_config(5)); }),
                    {"corpus: 5 tokens", "floor((5 - 1) / data.sequence_length) = 0",
                     "data.sequence_length = 5", "5 + 1 tokens", "at most 4"}));
  EXPECT_TRUE(holds(config_error([] { counting(1, data_config(5)); }), {"give more data"}));
  EXPECT_TRUE(holds(config_error([] { counting(0, data_config(1)); }), {"corpus: 0 tokens"}));
}

TEST(Dataset, SampleIsInputsAndTheTokensAfterThem) {
  const Dataset dataset = counting(12, data_config(3));
  std::vector<int64_t> inputs(3), targets(3);
  for (const int64_t sequence : {0, 1, 2}) {
    dataset.read(sequence, inputs, targets);
    const int64_t first = sequence * 3;
    EXPECT_EQ(inputs, (std::vector<int64_t>{first, first + 1, first + 2}));
    EXPECT_EQ(targets, (std::vector<int64_t>{first + 1, first + 2, first + 3}));
  }
}

TEST(Dataset, ReadsSequencesOfOneToken) {
  const Dataset dataset = counting(3, data_config(1));
  std::vector<int64_t> inputs(1), targets(1);
  dataset.read(1, inputs, targets);
  EXPECT_EQ(inputs[0], 1);
  EXPECT_EQ(targets[0], 2);
}

TEST(Dataset, WithoutShuffleEpochsRepeatTheCorpusOrder) {
  const Dataset dataset = counting(16, data_config(3));  // 5 samples
  for (int64_t sequence = 0; sequence < 20; ++sequence) {
    EXPECT_EQ(dataset.sample_index(sequence), sequence % 5);
  }
  EXPECT_EQ(dataset.sample_index((int64_t{1} << 62) / 5 * 5 + 3), 3);
}

TEST(Dataset, EpochHasEverySampleOnceAndItsOwnOrder) {
  const Dataset dataset = counting(7 * 3 + 1, data_config(3, true, 42));
  std::vector<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < 7; ++i) order.push_back(dataset.sample_index(epoch * 7 + i));
    orders.push_back(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(Dataset, ShuffledOrderIsThatOfSampleOrder) {
  const Dataset dataset = counting(31, data_config(3, true, 9));  // 10 samples
  for (int64_t sequence = 0; sequence < 40; ++sequence) {
    EXPECT_EQ(dataset.sample_index(sequence),
              shuffled_position(sequence % 10, 10, 9, sequence / 10));
  }
}

/// Samples of `steps` global batches as the data ranks read them, in rank order.
std::vector<int64_t> samples_in_rank_order(const Dataset& dataset, int64_t steps, int64_t batch,
                                           int ranks) {
  std::vector<int64_t> samples;
  for (int64_t step = 0; step < steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const BatchSlice slice = batch_slice(step, batch, rank, ranks);
      for (int64_t i = 0; i < slice.count; ++i) {
        samples.push_back(dataset.sample_index(slice.first + i));
      }
    }
  }
  return samples;
}

TEST(Dataset, OrderDoesNotDependOnTheNumberOfRanks) {
  const Dataset dataset = counting(17 * 4 + 1, data_config(4, true, 3));  // batches straddle epochs
  const auto one_rank = samples_in_rank_order(dataset, 17, 12, 1);
  for (const int ranks : {2, 3, 4, 5}) {  // 5 does not divide 12
    EXPECT_EQ(samples_in_rank_order(dataset, 17, 12, ranks), one_rank);
  }
  // 17 batches of 12 are 12 epochs of 17: nothing is lost or repeated at their edges
  ASSERT_EQ(one_rank.size(), 17u * 12u);
  for (size_t epoch = 0; epoch < 12; ++epoch) {
    std::vector<int64_t> order(one_rank.begin() + epoch * 17, one_rank.begin() + (epoch + 1) * 17);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < 17; ++i) EXPECT_EQ(order[i], i);
  }
}

TEST(Dataset, FindsTheFirstInvalidTokenOfEachPart) {
  std::vector<int64_t> tokens(20000, 7);
  tokens[4095] = tokens[4096] = tokens[13000] = 100;
  tokens[19999] = -1;
  const Dataset dataset(std::make_unique<ListTokens>(tokens), data_config(8));
  EXPECT_EQ(dataset.find_invalid_token(100, 0, 1), 4095);
  EXPECT_EQ(dataset.find_invalid_token(100, 0, 2), 4095);
  EXPECT_EQ(dataset.find_invalid_token(100, 1, 2), 13000);
  EXPECT_EQ(dataset.find_invalid_token(101, 0, 2), 20000);
  EXPECT_EQ(dataset.find_invalid_token(101, 1, 2), 19999);
  EXPECT_EQ(dataset.find_invalid_token(std::numeric_limits<int64_t>::max() - 1, 0, 1), 19999);
  EXPECT_EQ(dataset.find_invalid_token(7, 2, 3), 13333);
}

TEST(Dataset, EveryNumberOfPartsFindsTheSameToken) {
  for (int64_t bad = 0; bad < 11; ++bad) {
    std::vector<int64_t> tokens(11, 0);
    tokens[bad] = bad % 2 ? 5 : std::numeric_limits<int64_t>::min();
    const Dataset dataset(std::make_unique<ListTokens>(tokens), data_config(2));
    for (int parts = 1; parts <= 15; ++parts) {
      int64_t first = dataset.num_tokens();
      for (int part = 0; part < parts; ++part) {
        first = std::min(first, dataset.find_invalid_token(5, part, parts));
      }
      EXPECT_EQ(first, bad) << parts << " parts";
    }
  }
}

TEST(Dataset, DoesNotScanWhatTheStorageTypeRulesOut) {
  // the source lies about its bound: only a scan would see the 300
  const Dataset dataset(std::make_unique<ListTokens>(std::vector<int64_t>{1, 300, 2}, 255),
                        data_config(2));
  EXPECT_EQ(dataset.find_invalid_token(256, 0, 1), 3);
  EXPECT_EQ(dataset.find_invalid_token(255, 0, 1), 1);
}

class DatasetFileTest : public DataTest {};

TEST_F(DatasetFileTest, FindsNegativeTokensOfSignedTypes) {
  write_pair(path("c"), make_index({3}, 2, 1), bytes_of<int8_t>({1, -3, 127}));
  const Dataset dataset(open_tokens(path("c")), data_config(2));
  EXPECT_EQ(dataset.find_invalid_token(50000, 0, 1), 1);
  EXPECT_EQ(dataset.token(1), -3);
}

}  // namespace
}  // namespace cleave::test
