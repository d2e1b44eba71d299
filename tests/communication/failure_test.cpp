// Timeouts, abort and arguments that break the rules, on every backend.
#include <chrono>
#include <thread>

#include "buffer.h"
#include "ranks.h"

namespace cleave::testing {
namespace {

using Failure = Ranks;

TEST_P(Failure, ReceiveTimesOut) {
  on_ranks([](Communicator& c) {
    // static: after a failure the buffer belongs to the backend until the end
    static thread_local int64_t data = 7;
    const int left = (c.rank() + c.size() - 1) % c.size();
    cleave_collective call = transfer(CLEAVE_RECV, CLEAVE_INT64, &data, 1, left);
    call.timeout_ms = 50;
    EXPECT_EQ(c.run(call), CLEAVE_TIMED_OUT);
    EXPECT_NE(c.error().find("50 ms"), std::string::npos) << c.error();
    EXPECT_NE(c.error().find("rank " + std::to_string(left)), std::string::npos) << c.error();
    EXPECT_EQ(data, 7);
  });
}

TEST_P(Failure, CollectiveTimesOutWhenARankIsMissing) {
  on_ranks([](Communicator& c) {
    if (c.size() == 1) return;
    Communicator child(c.split(0, c.rank()));
    const bool missing = c.rank() == c.size() - 1;
    if (!missing) {
      cleave_collective call = collective(CLEAVE_BARRIER, CLEAVE_UINT8, nullptr, nullptr, 0);
      call.timeout_ms = 100;
      EXPECT_EQ(child.run(call), CLEAVE_TIMED_OUT);
    }
    c.barrier();  // other communicators go on
  });
}

TEST_P(Failure, TimeoutAlsoEndsPolling) {
  on_ranks([](Communicator& c) {
    static thread_local int64_t data = 0;
    cleave_collective call = transfer(CLEAVE_RECV, CLEAVE_INT64, &data, 1, c.rank());
    call.timeout_ms = 20;
    Work work = c.start(call);
    int32_t status = CLEAVE_PENDING;
    while (status == CLEAVE_PENDING) status = work.poll();
    EXPECT_EQ(status, CLEAVE_TIMED_OUT);
    EXPECT_EQ(work.wait(), CLEAVE_TIMED_OUT);
  });
}

TEST_P(Failure, AbortWakesTheWaiter) {
  on_ranks([](Communicator& c) {
    static thread_local int64_t data = 0;
    cleave_collective call =
        transfer(CLEAVE_RECV, CLEAVE_INT64, &data, 1, (c.rank() + c.size() - 1) % c.size());
    call.timeout_ms = 0;
    Work work = c.start(call);
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      c.abort();
    });
    EXPECT_EQ(work.wait(), CLEAVE_ABORTED);
    EXPECT_NE(c.error().find("abort"), std::string::npos) << c.error();
    other.join();
    // and everything that comes later
    EXPECT_EQ(c.run(collective(CLEAVE_BARRIER, CLEAVE_UINT8, nullptr, nullptr, 0)), CLEAVE_ABORTED);
  });
}

TEST_P(Failure, BadArgumentsAreRefused) {
  on_ranks([](Communicator& c) {
    cleave_communicator* raw = c.get();
    float data[4] = {};
    const auto submit = [&](cleave_collective call) {
      cleave_work* work = nullptr;
      const int32_t status = raw->api->submit(raw, &call, &work);
      EXPECT_EQ(work, nullptr);
      return status;
    };
    const cleave_collective good = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data, data, 4);
    cleave_collective call = good;
    call.count = -1;
    EXPECT_EQ(submit(call), CLEAVE_INVALID);
    EXPECT_NE(c.error().find("-1"), std::string::npos);
    call = good;
    call.dtype = 99;
    EXPECT_EQ(submit(call), CLEAVE_INVALID);
    call = good;
    call.op = CLEAVE_NUM_OPS;
    EXPECT_EQ(submit(call), CLEAVE_INVALID);
    call = good;
    call.device = backend_device() == CLEAVE_CPU ? CLEAVE_CUDA : CLEAVE_CPU;
    EXPECT_EQ(submit(call), CLEAVE_UNSUPPORTED);
    EXPECT_NE(c.error().find("all_reduce of float32 on c"), std::string::npos) << c.error();
    call = transfer(CLEAVE_SEND, CLEAVE_FLOAT32, data, 4, c.size());
    EXPECT_EQ(submit(call), CLEAVE_INVALID);
    c.barrier();  // nothing of this disturbed the group
  });
}

INSTANTIATE_TEST_SUITE_P(, Failure, ::testing::ValuesIn(variants()));

}  // namespace
}  // namespace cleave::testing
