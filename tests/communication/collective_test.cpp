// Every collective x dtype x length, out of place and in place, against exact results.
#include <numeric>

#include "buffer.h"
#include "ranks.h"

namespace cleave::testing {
namespace {

constexpr int64_t kLengths[] = {0, 1, 1009, (1 << 18) + 3};

/// Small integers: exact in every dtype, also summed over 8 ranks.
double value(int rank, int64_t i) {
  return static_cast<double>((rank * 7 + i * 3 + 1) % 13);
}

double reduced(cleave_reduction reduction, int ranks, int64_t i) {
  double result = value(0, i);
  for (int rank = 1; rank < ranks; ++rank)
    result = reduction == CLEAVE_SUM ? result + value(rank, i) : std::max(result, value(rank, i));
  return result;
}

void for_each_size(const std::function<void(cleave_dtype, int64_t)>& check) {
  for (int dtype = 0; dtype < CLEAVE_NUM_DTYPES; ++dtype)
    for (const int64_t length : kLengths) check(static_cast<cleave_dtype>(dtype), length);
}

/// The same with lengths of one rank's block: the large one is the length of all blocks.
void for_each_block(int ranks, const std::function<void(cleave_dtype, int64_t)>& check) {
  for_each_size([&](cleave_dtype dtype, int64_t n) { check(dtype, n > 2000 ? n / ranks + 1 : n); });
}

void expect_ok(Communicator& c, const cleave_collective& call) {
  const int32_t status = c.run(call);
  EXPECT_EQ(status, CLEAVE_OK) << c.error();
}

/// Uneven, with zeros: 0, 1, 2, 0, ... x scale.
std::vector<int64_t> uneven(int ranks, int64_t scale) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(rank % 3 * scale + (rank == 1));
  return counts;
}

int64_t before(const std::vector<int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

using Collective = Ranks;

TEST_P(Collective, AllReduceGivesEveryRankTheSum) {
  on_ranks([](Communicator& c) {
    for_each_size([&](cleave_dtype dtype, int64_t n) {
      for (const cleave_reduction reduction : {CLEAVE_SUM, CLEAVE_MAX}) {
        Buffer input(dtype, n);
        input.fill([&](int64_t i) { return value(c.rank(), i); });
        Buffer output(dtype, n);
        cleave_collective call =
            collective(CLEAVE_ALL_REDUCE, dtype, input.data(), output.data(), n);
        call.reduction = reduction;
        expect_ok(c, call);
        const auto expected = [&](int64_t i) { return reduced(reduction, c.size(), i); };
        output.expect(expected, "all_reduce");
        input.expect([&](int64_t i) { return value(c.rank(), i); }, "all_reduce's input");
        call.recv = input.data();
        expect_ok(c, call);
        input.expect(expected, "all_reduce in place");
      }
    });
  });
}

TEST_P(Collective, ReduceScatterGivesEachRankItsBlock) {
  on_ranks([](Communicator& c) {
    for_each_block(c.size(), [&](cleave_dtype dtype, int64_t n) {
      for (const cleave_reduction reduction : {CLEAVE_SUM, CLEAVE_MAX}) {
        Buffer input(dtype, n * c.size());
        input.fill([&](int64_t i) { return value(c.rank(), i); });
        Buffer output(dtype, n);
        cleave_collective call =
            collective(CLEAVE_REDUCE_SCATTER, dtype, input.data(), output.data(), n);
        call.reduction = reduction;
        expect_ok(c, call);
        const auto expected = [&](int64_t i) {
          return reduced(reduction, c.size(), c.rank() * n + i);
        };
        output.expect(expected, "reduce_scatter");
        call.recv = input.data(c.rank() * n);
        expect_ok(c, call);
        std::memcpy(output.data(), input.data(c.rank() * n),
                    static_cast<size_t>(output.num_bytes()));
        output.expect(expected, "reduce_scatter in place");
      }
    });
  });
}

TEST_P(Collective, ReduceScatterTakesUnevenCounts) {
  on_ranks([](Communicator& c) {
    for_each_block(c.size(), [&](cleave_dtype dtype, int64_t n) {
      const auto counts = uneven(c.size(), n);
      Buffer input(dtype, before(counts, c.size()));
      input.fill([&](int64_t i) { return value(c.rank(), i); });
      const int64_t own = counts[static_cast<size_t>(c.rank())];
      Buffer output(dtype, own);
      cleave_collective call =
          collective(CLEAVE_REDUCE_SCATTER, dtype, input.data(), output.data(), own);
      call.recv_counts = counts.data();
      expect_ok(c, call);
      const int64_t begin = before(counts, c.rank());
      const auto expected = [&](int64_t i) { return reduced(CLEAVE_SUM, c.size(), begin + i); };
      output.expect(expected, "reduce_scatter v");
      call.recv = input.data(begin);
      expect_ok(c, call);
      std::memcpy(output.data(), input.data(begin), static_cast<size_t>(output.num_bytes()));
      output.expect(expected, "reduce_scatter v in place");
    });
  });
}

TEST_P(Collective, AllGatherOrdersBlocksByRank) {
  on_ranks([](Communicator& c) {
    for_each_block(c.size(), [&](cleave_dtype dtype, int64_t n) {
      Buffer input(dtype, n);
      input.fill([&](int64_t i) { return value(c.rank(), i); });
      Buffer output(dtype, n * c.size());
      cleave_collective call = collective(CLEAVE_ALL_GATHER, dtype, input.data(), output.data(), n);
      expect_ok(c, call);
      const auto expected = [&](int64_t i) { return value(static_cast<int>(i / n), i % n); };
      output.expect(expected, "all_gather");

      Buffer in_place(dtype, n * c.size());
      if (n > 0)
        std::memcpy(in_place.data(c.rank() * n), input.data(),
                    static_cast<size_t>(input.num_bytes()));
      call.send = in_place.data(c.rank() * n);
      call.recv = in_place.data();
      expect_ok(c, call);
      in_place.expect(expected, "all_gather in place");
    });
  });
}

TEST_P(Collective, AllGatherTakesUnevenCounts) {
  on_ranks([](Communicator& c) {
    for_each_block(c.size(), [&](cleave_dtype dtype, int64_t n) {
      const auto counts = uneven(c.size(), n);
      const int64_t own = counts[static_cast<size_t>(c.rank())];
      Buffer input(dtype, own);
      input.fill([&](int64_t i) { return value(c.rank(), i); });
      Buffer output(dtype, before(counts, c.size()));
      cleave_collective call =
          collective(CLEAVE_ALL_GATHER, dtype, input.data(), output.data(), own);
      call.recv_counts = counts.data();
      expect_ok(c, call);
      int from = 0;
      output.expect(
          [&](int64_t i) {
            while (i >= before(counts, from + 1)) ++from;
            return value(from, i - before(counts, from));
          },
          "all_gather v");
    });
  });
}

TEST_P(Collective, BroadcastComesFromAnyRoot) {
  on_ranks([](Communicator& c) {
    for_each_size([&](cleave_dtype dtype, int64_t n) {
      for (const int root : {0, c.size() - 1}) {
        Buffer data(dtype, n);
        data.fill([&](int64_t i) { return value(c.rank(), i); });
        cleave_collective call = collective(CLEAVE_BROADCAST, dtype, nullptr, data.data(), n);
        call.peer = root;
        expect_ok(c, call);
        data.expect([&](int64_t i) { return value(root, i); }, "broadcast");
      }
    });
  });
}

TEST_P(Collective, AllToAllTransposesBlocks) {
  on_ranks([](Communicator& c) {
    for_each_block(c.size(), [&](cleave_dtype dtype, int64_t n) {
      Buffer input(dtype, n * c.size());
      input.fill([&](int64_t i) { return value(c.rank(), i); });
      Buffer output(dtype, n * c.size());
      expect_ok(c, collective(CLEAVE_ALL_TO_ALL, dtype, input.data(), output.data(), n));
      output.expect([&](int64_t i) { return value(static_cast<int>(i / n), c.rank() * n + i % n); },
                    "all_to_all");
    });
  });
}

TEST_P(Collective, AllToAllTakesUnevenCounts) {
  on_ranks([](Communicator& c) {
    // rank s sends (s + d) % 3 blocks of n to rank d
    const auto count = [](int from, int to, int64_t n) { return (from + to) % 3 * n; };
    for_each_block(c.size(), [&](cleave_dtype dtype, int64_t n) {
      std::vector<int64_t> outgoing;
      std::vector<int64_t> incoming;
      for (int peer = 0; peer < c.size(); ++peer) {
        outgoing.push_back(count(c.rank(), peer, n));
        incoming.push_back(count(peer, c.rank(), n));
      }
      Buffer input(dtype, before(outgoing, c.size()));
      for (int to = 0; to < c.size(); ++to)
        for (int64_t i = 0; i < outgoing[static_cast<size_t>(to)]; ++i)
          input.put(before(outgoing, to) + i, value(c.rank() + to, i));
      Buffer output(dtype, before(incoming, c.size()));
      cleave_collective call = collective(CLEAVE_ALL_TO_ALL, dtype, input.data(), output.data(), 0);
      call.send_counts = outgoing.data();
      call.recv_counts = incoming.data();
      expect_ok(c, call);
      int from = 0;
      output.expect(
          [&](int64_t i) {
            while (i >= before(incoming, from + 1)) ++from;
            return value(from + c.rank(), i - before(incoming, from));
          },
          "all_to_all v");
    });
  });
}

TEST_P(Collective, EveryOperationNamesItsAlgorithm) {
  on_ranks([](Communicator& c) {
    const cleave_capabilities can = c.capabilities();
    for (int op = 0; op < CLEAVE_NUM_OPS; ++op)
      for (int dtype = 0; dtype < CLEAVE_NUM_DTYPES; ++dtype)
        for (const int64_t bytes : {0, 8, 65'535, 65'536, 1 << 28}) {
          if (!((can.dtypes[backend_device()][op] >> dtype) & 1u)) continue;
          const char* name = c.get()->api->algorithm(c.get(), op, dtype, bytes, backend_device());
          ASSERT_NE(name, nullptr) << "op " << op << " dtype " << dtype << ": " << c.error();
          EXPECT_STRNE(name, "") << "op " << op << " dtype " << dtype << " bytes " << bytes;
        }
  });
}

INSTANTIATE_TEST_SUITE_P(, Collective, ::testing::ValuesIn(variants()));

}  // namespace
}  // namespace cleave::testing
