// Many open operations, point-to-point matching, groups.
#include <deque>

#include "buffer.h"
#include "ranks.h"

namespace cleave::testing {
namespace {

using Order = Ranks;

TEST_P(Order, OpenWorksMayBeWaitedInReverse) {
  on_ranks([](Communicator& c) {
    constexpr int kWorks = 24;
    std::deque<Buffer> data;
    std::vector<Work> works;
    for (int k = 0; k < kWorks; ++k) {
      const int64_t n = k % 3 == 0 ? 100'000 + k : 100 + k;  // large and small mixed
      data.emplace_back(CLEAVE_FLOAT32, n).fill([&](int64_t) { return c.rank() + k; });
      works.push_back(c.start(collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.back().data(),
                                         data.back().data(), n)));
    }
    for (int k = kWorks - 1; k >= 0; --k) {
      EXPECT_EQ(works[static_cast<size_t>(k)].wait(), CLEAVE_OK) << c.error();
      const double sum = c.size() * (c.size() - 1) / 2 + c.size() * k;
      data[static_cast<size_t>(k)].expect([&](int64_t) { return sum; }, "all_reduce");
    }
  });
}

TEST_P(Order, ReleasedWorksStillComplete) {
  on_ranks([](Communicator& c) {
    constexpr int64_t kElements = 200'000;
    // static: rank 0 can't know when its part is done
    static thread_local Buffer data(CLEAVE_INT32, kElements);
    static thread_local Buffer outgoing(CLEAVE_INT32, kElements);
    data.fill([&](int64_t) { return 1; });
    outgoing.fill([&](int64_t) { return c.rank(); });
    const auto call =
        collective(CLEAVE_ALL_REDUCE, CLEAVE_INT32, data.data(), data.data(), kElements);
    const int right = (c.rank() + 1) % c.size();
    const int left = (c.rank() + c.size() - 1) % c.size();
    c.start(transfer(CLEAVE_SEND, CLEAVE_INT32, outgoing.data(), kElements, right));
    if (c.rank() == 0 && c.size() > 1) {
      c.start(call);
    } else {
      EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
      data.expect([&](int64_t) { return c.size(); }, "all_reduce that rank 0 released");
    }
    Buffer incoming(CLEAVE_INT32, kElements);
    EXPECT_EQ(c.run(transfer(CLEAVE_RECV, CLEAVE_INT32, incoming.data(), kElements, left)),
              CLEAVE_OK);
    incoming.expect([&](int64_t) { return left; }, "send that was released");
    c.barrier();
  });
}

TEST_P(Order, NeighboursMayBothSendFirst) {
  on_ranks([](Communicator& c) {
    constexpr int64_t kElements = 1 << 18;  // 1 MiB
    const int right = (c.rank() + 1) % c.size();
    const int left = (c.rank() + c.size() - 1) % c.size();
    Buffer to_right(CLEAVE_FLOAT32, kElements);
    Buffer to_left(CLEAVE_FLOAT32, kElements);
    Buffer from_left(CLEAVE_FLOAT32, kElements);
    Buffer from_right(CLEAVE_FLOAT32, kElements);
    to_right.fill([&](int64_t) { return c.rank(); });
    to_left.fill([&](int64_t) { return 100 + c.rank(); });
    std::vector<Work> works;
    works.push_back(
        c.start(transfer(CLEAVE_SEND, CLEAVE_FLOAT32, to_right.data(), kElements, right, 1)));
    works.push_back(
        c.start(transfer(CLEAVE_SEND, CLEAVE_FLOAT32, to_left.data(), kElements, left, 2)));
    works.push_back(
        c.start(transfer(CLEAVE_RECV, CLEAVE_FLOAT32, from_left.data(), kElements, left, 1)));
    works.push_back(
        c.start(transfer(CLEAVE_RECV, CLEAVE_FLOAT32, from_right.data(), kElements, right, 2)));
    for (Work& work : works) EXPECT_EQ(work.wait(), CLEAVE_OK) << c.error();
    from_left.expect([&](int64_t) { return left; }, "recv from the left");
    from_right.expect([&](int64_t) { return 100 + right; }, "recv from the right");
  });
}

TEST_P(Order, CollectivesAndTransfersMix) {
  on_ranks([](Communicator& c) {
    const int right = (c.rank() + 1) % c.size();
    const int left = (c.rank() + c.size() - 1) % c.size();
    Buffer sum(CLEAVE_FLOAT64, 60'000);
    sum.fill([&](int64_t) { return 1; });
    Buffer incoming(CLEAVE_UINT8, 300'000);
    Buffer outgoing(CLEAVE_UINT8, 300'000);
    outgoing.fill([&](int64_t) { return c.rank() + 1; });
    Work receive = c.start(transfer(CLEAVE_RECV, CLEAVE_UINT8, incoming.data(), 300'000, left));
    Work reduce =
        c.start(collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT64, sum.data(), sum.data(), 60'000));
    EXPECT_EQ(reduce.wait(), CLEAVE_OK);
    Work send = c.start(transfer(CLEAVE_SEND, CLEAVE_UINT8, outgoing.data(), 300'000, right));
    EXPECT_EQ(receive.wait(), CLEAVE_OK);
    EXPECT_EQ(send.wait(), CLEAVE_OK);
    sum.expect([&](int64_t) { return c.size(); }, "all_reduce");
    incoming.expect([&](int64_t) { return left + 1; }, "recv");
  });
}

/// The sum of `value` over the ranks of `c`.
int64_t sum_over(Communicator& c, int64_t value) {
  EXPECT_EQ(c.run(collective(CLEAVE_ALL_REDUCE, CLEAVE_INT64, &value, &value, 1)), CLEAVE_OK)
      << c.error();
  return value;
}

TEST_P(Order, SplitGroupsNeedNotBeContiguous) {
  on_ranks([](Communicator& c) {
    // even and odd ranks, in reverse order
    Communicator parity(c.split(c.rank() % 2, -c.rank()));
    const int members = (c.size() + (c.rank() % 2 == 0)) / 2;
    ASSERT_EQ(parity.size(), members);
    EXPECT_EQ(parity.rank(), members - 1 - c.rank() / 2);
    int64_t expected = 0;
    for (int rank = c.rank() % 2; rank < c.size(); rank += 2) expected += 1 << rank;
    EXPECT_EQ(sum_over(parity, 1 << c.rank()), expected);

    // the first of each group alone, the others together: nested
    const bool first = parity.rank() == 0;
    Communicator nested(parity.split(first ? 0 : 1, parity.rank()));
    EXPECT_EQ(sum_over(nested, 1), first ? 1 : members - 1);
    EXPECT_EQ(sum_over(c, 1), c.size());
  });
}

TEST_P(Order, SplitLeavesOutColorMinusOne) {
  on_ranks([](Communicator& c) {
    const bool member = c.rank() != 0;
    cleave_communicator* child = c.split(member ? 3 : -1, 0);
    EXPECT_EQ(child != nullptr, member);
    if (!child) return;
    Communicator others(child);
    EXPECT_EQ(sum_over(others, c.rank()), c.size() * (c.size() - 1) / 2);
  });
}

TEST_P(Order, OperationsMayBeOpenDuringASplit) {
  on_ranks([](Communicator& c) {
    Buffer data(CLEAVE_FLOAT32, 500'000);
    data.fill([&](int64_t) { return 1; });
    Work work = c.start(
        collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(), data.elements()));
    if (c.rank() % 2 == 0) {
      EXPECT_EQ(work.wait(), CLEAVE_OK);
    }
    Communicator child(c.split(0, c.rank()));
    EXPECT_EQ(sum_over(child, 1), c.size());
    EXPECT_EQ(work.wait(), CLEAVE_OK);
    data.expect([&](int64_t) { return c.size(); }, "all_reduce");
  });
}

TEST_P(Order, MemoryIsAlignedAndUsable) {
  on_ranks([](Communicator& c) {
    cleave_communicator* raw = c.get();
    auto* memory = static_cast<int64_t*>(raw->api->allocate(raw, 8 * 1001, backend_device()));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    std::fill_n(memory, 1001, c.rank());
    EXPECT_EQ(c.run(collective(CLEAVE_ALL_REDUCE, CLEAVE_INT64, memory, memory, 1001)), CLEAVE_OK);
    EXPECT_EQ(memory[1000], c.size() * (c.size() - 1) / 2);
    raw->api->deallocate(raw, memory, 8 * 1001, backend_device());
  });
}

INSTANTIATE_TEST_SUITE_P(, Order, ::testing::ValuesIn(variants()));

}  // namespace
}  // namespace cleave::testing
