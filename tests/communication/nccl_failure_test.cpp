// How operations of the nccl plugin end when they don't succeed: aborts, deadlines, NCCL's errors.
#include <chrono>
#include <latch>
#include <thread>

#include "buffer.h"
#include "fake_nccl/fake.h"
#include "nccl_ranks.h"

namespace cleave::testing {
namespace {

class NcclFailure : public ::testing::Test {
 protected:
  NcclFailure() { fake::reset(); }
  static void on_ranks(int ranks, const std::function<void(Communicator&)>& body) {
    run_ranks({ranks, 0}, body);
  }
};

// Operations that NCCL has started and that never complete.
void hold() {
  fake::Settings settings = fake::settings();
  settings.holds = true;
  fake::set(settings);
}

cleave_collective sum_of(Buffer& data, int64_t timeout_ms) {
  cleave_collective call =
      collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(), data.elements());
  call.timeout_ms = timeout_ms;
  return call;
}

using Clock = std::chrono::steady_clock;

TEST_F(NcclFailure, AbortReturnsAtOnceAndFreesEveryWaiter) {
  on_ranks(2, [](Communicator& c) {
    Buffer data(CLEAVE_FLOAT32, 5), more(CLEAVE_FLOAT32, 5);
    c.barrier();  // connected: what follows waits in NCCL's streams
    c.barrier();
    hold();
    Work first = c.start(sum_of(data, 0)), second = c.start(sum_of(more, 0));
    std::vector<std::thread> waiters;
    std::atomic<int> aborted = 0;
    for (Work* work : {&first, &second})
      waiters.emplace_back([&aborted, work] { aborted += work->wait() == CLEAVE_ABORTED; });
    fake::Settings blocking = fake::settings();
    blocking.abort_blocks = true;
    fake::set(blocking);
    const auto begin = Clock::now();
    c.abort();
    for (std::thread& waiter : waiters) waiter.join();
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
    EXPECT_EQ(aborted, 2);
    EXPECT_EQ(c.run(sum_of(data, 0)), CLEAVE_ABORTED);
    blocking.abort_blocks = false;  // or the destruction would wait for ncclCommAbort
    fake::set(blocking);
  });
}

TEST_F(NcclFailure, AbortFreesASubmitThatWaitsForThePeersToConnect) {
  on_ranks(2, [](Communicator& c) {
    Communicator child(c.split(0, c.rank()));
    if (c.rank() == 0) {
      Buffer data(CLEAVE_FLOAT32, 5);
      std::thread other([&] { child.abort(); });
      EXPECT_EQ(child.run(sum_of(data, 0)), CLEAVE_ABORTED);
      other.join();
    }
    c.barrier();
  });
}

TEST_F(NcclFailure, TimeoutNamesTheOperationAndEndsTheCommunicator) {
  on_ranks(2, [](Communicator& c) {
    Buffer data(CLEAVE_FLOAT32, 5), other(CLEAVE_FLOAT32, 5);
    c.barrier();
    c.barrier();
    hold();
    Work patient = c.start(sum_of(other, 0));
    EXPECT_EQ(c.run(sum_of(data, 30)), CLEAVE_TIMED_OUT);
    EXPECT_NE(c.error().find("all_reduce of 5 float32 was not done within 30 ms"),
              std::string::npos)
        << c.error();
    EXPECT_EQ(patient.wait(), CLEAVE_ABORTED);
    EXPECT_NE(c.error().find("within 30 ms"), std::string::npos) << c.error();
  });
}

TEST_F(NcclFailure, DeadlineOfAReleasedOperationFreesTheStreamThatWaitsForIt) {
  on_ranks(2, [](Communicator& c) {
    static thread_local Buffer data(CLEAVE_FLOAT32, 5);
    cudaStream_t user = nullptr;
    cudaStreamCreateWithFlags(&user, cudaStreamNonBlocking);
    c.barrier();
    c.barrier();
    hold();
    const cleave_collective call = sum_of(data, 2000);  // not over before the next two calls
    cleave_work* work = nullptr;
    ASSERT_EQ(c.get()->api->submit(c.get(), &call, &work), CLEAVE_OK);
    ASSERT_EQ(c.get()->api->work_wait_stream(work, user), CLEAVE_OK);
    c.get()->api->work_release(work);
    cudaStreamDestroy(user);  // waits for what is queued: nobody but the watch thread can end it
    EXPECT_EQ(c.run(sum_of(data, 0)), CLEAVE_ABORTED);
  });
}

TEST_F(NcclFailure, AsynchronousErrorFailsTheOperationWithItsText) {
  std::latch both_have_started(2);  // the error reaches whatever a rank is waiting for
  on_ranks(2, [&](Communicator& c) {
    Buffer data(CLEAVE_FLOAT32, 5);
    c.barrier();
    c.barrier();
    hold();
    Work work = c.start(sum_of(data, 0));
    both_have_started.arrive_and_wait();
    fake::set_async_error(ncclRemoteError);
    EXPECT_EQ(work.wait(), CLEAVE_FAILED);
    EXPECT_NE(c.error().find("remote process exited"), std::string::npos) << c.error();
    EXPECT_NE(c.error().find("the fake was told to fail"), std::string::npos) << c.error();
  });
}

TEST_F(NcclFailure, RefusedCallFailsTheOperationAndLeavesNoGroupOpen) {
  on_ranks(1, [](Communicator& c) {
    cleave_communicator* raw = c.get();
    Buffer data(CLEAVE_FLOAT32, 5);
    fake::Settings settings = fake::settings();
    settings.operation_result = ncclInvalidUsage;
    fake::set(settings);
    raw->api->group_begin(raw);
    Work first = c.start(sum_of(data, 0)), second = c.start(sum_of(data, 0));
    raw->api->group_end(raw);
    EXPECT_EQ(first.wait(), CLEAVE_FAILED);
    EXPECT_NE(c.error().find("all_reduce: "), std::string::npos) << c.error();
    EXPECT_EQ(second.wait(), CLEAVE_FAILED);
    EXPECT_NE(raw->api->finalize(raw), CLEAVE_OK);
    int depth = 0;
    for (const fake::Call& call : fake::calls())
      depth += (call.name == "ncclGroupStart") - (call.name == "ncclGroupEnd");
    EXPECT_EQ(depth, 0);
  });
}

TEST_F(NcclFailure, UnmatchedReceiveEndsAtItsDeadlineAndNamesThePeer) {
  on_ranks(2, [](Communicator& c) {
    static thread_local Buffer data(CLEAVE_FLOAT32, 5);
    cleave_collective call = transfer(CLEAVE_RECV, CLEAVE_FLOAT32, data.data(), 5, 1 - c.rank());
    call.timeout_ms = 40;
    EXPECT_EQ(c.run(call), CLEAVE_TIMED_OUT);
    EXPECT_NE(c.error().find("recv of 5 float32 from rank " + std::to_string(1 - c.rank())),
              std::string::npos)
        << c.error();
  });
}

TEST_F(NcclFailure, DestroyWithOpenOperationsEnds) {
  const fake::Counts before = fake::counts();
  on_ranks(2, [](Communicator& c) {
    static thread_local Buffer data(CLEAVE_FLOAT32, 5);
    c.barrier();
    c.barrier();
    hold();
    c.start(sum_of(data, 0));
    c.start(transfer(CLEAVE_RECV, CLEAVE_FLOAT32, data.data(), 5, 1 - c.rank()));
  });
  const fake::Counts after = fake::counts();
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.events, before.events);
  EXPECT_EQ(after.comms, before.comms);
}

}  // namespace
}  // namespace cleave::testing
