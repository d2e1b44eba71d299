// Transfers that are received in another order than they were sent, told apart by tags.
#include <deque>

#include "buffer.h"
#include "ranks.h"

namespace cleave::testing {
namespace {

using Tags = Ranks;

TEST_P(Tags, TagsAndOrderMatchTransfers) {
  on_ranks([](Communicator& c) {
    constexpr int kMessages = 6;
    const int right = (c.rank() + 1) % c.size();
    const int left = (c.rank() + c.size() - 1) % c.size();
    std::deque<Buffer> sent;
    std::deque<Buffer> received;
    std::vector<Work> works;
    for (int k = 0; k < kMessages; ++k) {
      sent.emplace_back(CLEAVE_INT64, 500).fill([&](int64_t) { return c.rank() * 10 + k; });
      works.push_back(
          c.start(transfer(CLEAVE_SEND, CLEAVE_INT64, sent.back().data(), 500, right, k % 2)));
    }
    // tag 1 first: messages 1, 3, 5, then 0, 2, 4
    for (const int k : {1, 3, 5, 0, 2, 4}) {
      received.emplace_back(CLEAVE_INT64, 500);
      EXPECT_EQ(
          c.run(transfer(CLEAVE_RECV, CLEAVE_INT64, received.back().data(), 500, left, k % 2)),
          CLEAVE_OK);
      received.back().expect([&](int64_t) { return left * 10 + k; }, "recv");
    }
    for (Work& work : works) EXPECT_EQ(work.wait(), CLEAVE_OK);
  });
}

INSTANTIATE_TEST_SUITE_P(, Tags, ::testing::ValuesIn(variants()));

}  // namespace
}  // namespace cleave::testing
