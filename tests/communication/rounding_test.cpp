// Sums that round: the same bits on every rank and in every run; 16-bit floats rounded once.
#include "buffer.h"
#include "ranks.h"

namespace cleave::testing {
namespace {

using Rounding = Ranks;

/// Many bits, different on each rank.
double uneven_value(int rank, int64_t i) {
  return std::sin(static_cast<double>(i * 31 + rank * 7));
}

std::vector<uint8_t> all_reduce_bits(Communicator& c, cleave_dtype dtype, int64_t n) {
  Buffer data(dtype, n);
  data.fill([&](int64_t i) { return uneven_value(c.rank(), i); });
  EXPECT_EQ(c.run(collective(CLEAVE_ALL_REDUCE, dtype, data.data(), data.data(), n)), CLEAVE_OK)
      << c.error();
  return {data.data(), data.data() + data.num_bytes()};
}

TEST_P(Rounding, AllReduceGivesAllRanksTheSameBits) {
  on_ranks([](Communicator& c) {
    for (const cleave_dtype dtype :
         {CLEAVE_FLOAT32, CLEAVE_FLOAT64, CLEAVE_BFLOAT16, CLEAVE_FLOAT16})
      for (const int64_t n : {1009, 300'007}) {
        std::vector<uint8_t> mine = all_reduce_bits(c, dtype, n);
        EXPECT_EQ(mine, all_reduce_bits(c, dtype, n)) << "a second run differs";
        const auto bytes = static_cast<int64_t>(mine.size());
        std::vector<uint8_t> all(mine.size() * static_cast<size_t>(c.size()));
        EXPECT_EQ(
            c.run(collective(CLEAVE_ALL_GATHER, CLEAVE_UINT8, mine.data(), all.data(), bytes)),
            CLEAVE_OK);
        for (int rank = 0; rank < c.size(); ++rank)
          EXPECT_EQ(std::memcmp(all.data() + rank * bytes, mine.data(), mine.size()), 0)
              << dtype_name(dtype) << ": rank " << rank << " has other bits than " << c.rank();
      }
  });
}

/// 1 + k 2^-7: the neighbours of 1 in bfloat16.
double near_one(int rank, int64_t i) {
  return 1 + std::ldexp(static_cast<double>((i * 5 + rank * 3) % 128), -7);
}

TEST_P(Rounding, BFloat16SumsAreRoundedOnce) {
  on_ranks([](Communicator& c) {
    for (const int64_t n : {1, 7, 20'000, (1 << 18) + 1}) {
      Buffer data(CLEAVE_BFLOAT16, n);
      data.fill([&](int64_t i) { return near_one(c.rank(), i); });
      Buffer scattered_input(CLEAVE_BFLOAT16, n * c.size());
      scattered_input.fill([&](int64_t i) { return near_one(c.rank(), i % n); });
      EXPECT_EQ(c.run(collective(CLEAVE_ALL_REDUCE, CLEAVE_BFLOAT16, data.data(), data.data(), n)),
                CLEAVE_OK);
      const auto expected = [&](int64_t i) {
        double sum = 0;
        for (int rank = 0; rank < c.size(); ++rank) sum += near_one(rank, i);
        return from_bfloat16(round_to_bfloat16(sum));
      };
      data.expect(expected, "all_reduce");
      Buffer scattered(CLEAVE_BFLOAT16, n);
      EXPECT_EQ(c.run(collective(CLEAVE_REDUCE_SCATTER, CLEAVE_BFLOAT16, scattered_input.data(),
                                 scattered.data(), n)),
                CLEAVE_OK);
      scattered.expect(expected, "reduce_scatter");
    }
  });
}

TEST_P(Rounding, MaxKeepsNaN) {
  on_ranks([](Communicator& c) {
    for (const int64_t n : {3, 100'003}) {
      Buffer data(CLEAVE_FLOAT32, n);
      data.fill([&](int64_t) { return c.rank(); });
      if (c.rank() == c.size() / 2) data.put(n / 2, std::nan(""));
      cleave_collective call =
          collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(), n);
      call.reduction = CLEAVE_MAX;
      EXPECT_EQ(c.run(call), CLEAVE_OK);
      EXPECT_TRUE(std::isnan(data.get(n / 2)));
      data.put(n / 2, c.size() - 1);
      data.expect([&](int64_t) { return c.size() - 1; }, "max beside NaN");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, Rounding, ::testing::ValuesIn(variants()));

}  // namespace
}  // namespace cleave::testing
