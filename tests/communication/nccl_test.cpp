// What the nccl plugin asks of NCCL and CUDA: streams, events, groups, splits, what it gives back.
#include <algorithm>
#include <map>

#include "buffer.h"
#include "fake_nccl/fake.h"
#include "nccl_ranks.h"

namespace cleave::testing {
namespace {

class Nccl : public ::testing::Test {
 protected:
  Nccl() { fake::reset(); }
  static void on_ranks(int ranks, const std::function<void(Communicator&)>& body) {
    run_ranks({ranks, 0}, body);
  }
};

std::vector<fake::Call> calls_of(int rank) {
  std::vector<fake::Call> all = fake::calls();
  std::erase_if(all, [&](const fake::Call& call) { return call.device != rank; });
  return all;
}

std::vector<std::string> names_of(const std::vector<fake::Call>& calls) {
  std::vector<std::string> names;
  for (const fake::Call& call : calls) names.push_back(call.name);
  return names;
}

using Names = std::vector<std::string>;

// What rank 0 calls from here on; all ranks are past what came before.
void start_recording(Communicator& c) {
  c.barrier();
  if (c.rank() == 0) fake::clear_calls();
  c.barrier();
  if (c.rank() == 0) fake::clear_calls();
}

TEST_F(Nccl, OperationWaitsForItsInputsAndTheCallersStreamForIt) {
  on_ranks(1, [](Communicator& c) {
    cudaStream_t inputs = nullptr, user = nullptr;
    cudaStreamCreateWithFlags(&inputs, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&user, cudaStreamNonBlocking);
    Buffer data(CLEAVE_FLOAT32, 5);
    fake::clear_calls();
    auto call = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(), 5);
    call.stream = inputs;
    cleave_work* work = nullptr;
    ASSERT_EQ(c.get()->api->submit(c.get(), &call, &work), CLEAVE_OK);
    ASSERT_EQ(c.get()->api->work_wait_stream(work, user), CLEAVE_OK);
    const auto calls = calls_of(0);
    ASSERT_EQ(names_of(calls), (Names{"cudaEventRecord", "cudaStreamWaitEvent", "ncclAllReduce",
                                      "cudaEventRecord", "cudaStreamWaitEvent"}));
    const int own = calls[2].stream;
    EXPECT_EQ(calls[0].event, calls[1].event);
    EXPECT_EQ(calls[1].stream, own);
    EXPECT_EQ(calls[3].stream, own);
    EXPECT_EQ(calls[3].event, calls[4].event);
    EXPECT_NE(calls[0].event, calls[3].event);
    EXPECT_NE(calls[0].stream, own);
    EXPECT_NE(calls[4].stream, own);
    EXPECT_NE(calls[4].stream, calls[0].stream);
    EXPECT_EQ(c.get()->api->work_wait_host(work), CLEAVE_OK);
    c.get()->api->work_release(work);
    cudaStreamDestroy(inputs);
    cudaStreamDestroy(user);
  });
}

TEST_F(Nccl, ResultIsReadInStreamOrder) {
  on_ranks(3, [](Communicator& c) {
    constexpr int64_t kElements = 10'007;
    Buffer data(CLEAVE_INT64, kElements), seen(CLEAVE_INT64, kElements);
    data.fill([](int64_t i) { return static_cast<double>(i); });
    cudaStream_t user = nullptr;
    cudaStreamCreateWithFlags(&user, cudaStreamNonBlocking);
    auto call = collective(CLEAVE_ALL_REDUCE, CLEAVE_INT64, data.data(), data.data(), kElements);
    call.stream = user;
    cleave_work* work = nullptr;
    ASSERT_EQ(c.get()->api->submit(c.get(), &call, &work), CLEAVE_OK);
    ASSERT_EQ(c.get()->api->work_wait_stream(work, user), CLEAVE_OK);
    cudaMemcpyAsync(seen.data(), data.data(), static_cast<size_t>(data.num_bytes()),
                    cudaMemcpyDeviceToDevice, user);
    cudaStreamDestroy(user);  // the fake's runs what is queued
    seen.expect([](int64_t i) { return static_cast<double>(3 * i); }, "copy behind all_reduce");
    EXPECT_EQ(c.get()->api->work_wait_host(work), CLEAVE_OK);
    c.get()->api->work_release(work);
  });
}

TEST_F(Nccl, GroupsNestAndRecordTheirEventsAtTheEnd) {
  on_ranks(2, [](Communicator& c) {
    start_recording(c);
    cleave_communicator* raw = c.get();
    Buffer a(CLEAVE_FLOAT32, 3), b(CLEAVE_FLOAT32, 4);
    a.fill([](int64_t) { return 1; });
    b.fill([](int64_t) { return 2; });
    ASSERT_EQ(raw->api->group_begin(raw), CLEAVE_OK);
    Work first = c.start(collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, a.data(), a.data(), 3));
    ASSERT_EQ(raw->api->group_begin(raw), CLEAVE_OK);
    Work second = c.start(collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, b.data(), b.data(), 4));
    ASSERT_EQ(raw->api->group_end(raw), CLEAVE_OK);
    EXPECT_EQ(first.poll(), CLEAVE_PENDING);
    EXPECT_EQ(first.wait(), CLEAVE_INVALID);
    EXPECT_NE(c.error().find("group_end"), std::string::npos) << c.error();
    ASSERT_EQ(raw->api->group_end(raw), CLEAVE_OK);
    EXPECT_EQ(second.wait(), CLEAVE_OK);
    EXPECT_EQ(first.wait(), CLEAVE_OK);
    a.expect([](int64_t) { return 2; }, "first");
    b.expect([](int64_t) { return 4; }, "second");
    if (c.rank() != 0) return;
    const auto calls = calls_of(0);
    EXPECT_EQ(names_of(calls),
              (Names{"cudaEventRecord", "cudaEventRecord", "cudaStreamWaitEvent",
                     "cudaStreamWaitEvent", "ncclGroupStart", "ncclAllReduce", "ncclAllReduce",
                     "ncclGroupEnd", "cudaEventRecord", "cudaEventRecord"}));
  });
}

TEST_F(Nccl, GroupEndWithoutABeginIsRefused) {
  on_ranks(1, [](Communicator& c) {
    EXPECT_EQ(c.get()->api->group_end(c.get()), CLEAVE_FAILED);
    c.barrier();
  });
}

Names collectives_of(int rank) {
  Names names;
  for (const fake::Call& call : calls_of(rank))
    if (call.name.starts_with("nccl"))
      names.push_back(call.name + " " + std::to_string(call.count) + " of " +
                      std::to_string(call.peer) + " at " + std::to_string(call.depth));
  return names;
}

TEST_F(Nccl, UnevenFormsAreOneGroupOfTheirBlocks) {
  on_ranks(3, [](Communicator& c) {
    const std::vector<int64_t> counts = {5, 0, 2};
    const int64_t own = counts[static_cast<size_t>(c.rank())];
    Buffer whole(CLEAVE_FLOAT32, 7), part(CLEAVE_FLOAT32, own);
    start_recording(c);
    auto call = collective(CLEAVE_REDUCE_SCATTER, CLEAVE_FLOAT32, whole.data(), part.data(), own);
    call.recv_counts = counts.data();
    EXPECT_EQ(c.run(call), CLEAVE_OK);
    call = collective(CLEAVE_ALL_GATHER, CLEAVE_FLOAT32, part.data(), whole.data(), own);
    call.recv_counts = counts.data();
    EXPECT_EQ(c.run(call), CLEAVE_OK);
    if (c.rank() != 0) return;
    EXPECT_EQ(collectives_of(0), (Names{"ncclGroupStart 0 of -1 at 0", "ncclReduce 5 of 0 at 1",
                                        "ncclReduce 2 of 2 at 1", "ncclGroupEnd 0 of -1 at 0",
                                        "ncclGroupStart 0 of -1 at 0", "ncclBroadcast 5 of 0 at 1",
                                        "ncclBroadcast 2 of 2 at 1", "ncclGroupEnd 0 of -1 at 0"}));
  });
}

TEST_F(Nccl, EqualCountsAreOnePlainCall) {
  on_ranks(2, [](Communicator& c) {
    const std::vector<int64_t> counts = {3, 3};
    Buffer whole(CLEAVE_FLOAT32, 6), part(CLEAVE_FLOAT32, 3);
    start_recording(c);
    auto call = collective(CLEAVE_ALL_GATHER, CLEAVE_FLOAT32, part.data(), whole.data(), 3);
    call.recv_counts = counts.data();
    EXPECT_EQ(c.run(call), CLEAVE_OK);
    if (c.rank() != 0) return;
    EXPECT_EQ(collectives_of(0), (Names{"ncclAllGather 3 of -1 at 0"}));
  });
}

TEST_F(Nccl, EachDirectionBetweenTwoRanksHasItsOwnStream) {
  on_ranks(2, [](Communicator& c) {
    const int peer = 1 - c.rank();
    Buffer out(CLEAVE_INT32, 3), in(CLEAVE_INT32, 3);
    out.fill([&](int64_t) { return c.rank() + 5; });
    c.barrier();
    // both receive first: on one stream that would never end
    Work received = c.start(transfer(CLEAVE_RECV, CLEAVE_INT32, in.data(), 3, peer));
    Work sent = c.start(transfer(CLEAVE_SEND, CLEAVE_INT32, out.data(), 3, peer));
    EXPECT_EQ(received.wait(), CLEAVE_OK);
    EXPECT_EQ(sent.wait(), CLEAVE_OK);
    in.expect([&](int64_t) { return peer + 5; }, "recv");
  });
  std::map<std::string, int> streams;
  for (const fake::Call& call : calls_of(0))
    if (call.name == "ncclSend" || call.name == "ncclRecv" || call.name == "ncclAllReduce")
      streams[call.name] = call.stream;
  ASSERT_EQ(streams.size(), 3u);
  EXPECT_NE(streams["ncclSend"], streams["ncclRecv"]);
  EXPECT_NE(streams["ncclSend"], streams["ncclAllReduce"]);
  EXPECT_NE(streams["ncclRecv"], streams["ncclAllReduce"]);
}

TEST_F(Nccl, EarlyReceiveHoldsUpNothing) {
  on_ranks(2, [](Communicator& c) {
    const int peer = 1 - c.rank();
    Buffer late(CLEAVE_INT32, 3), sum(CLEAVE_INT32, 3);
    sum.fill([](int64_t) { return 1; });
    Work received = c.start(transfer(CLEAVE_RECV, CLEAVE_INT32, late.data(), 3, peer));
    EXPECT_EQ(c.run(collective(CLEAVE_ALL_REDUCE, CLEAVE_INT32, sum.data(), sum.data(), 3)),
              CLEAVE_OK);
    Communicator child(c.split(0, c.rank()));
    child.barrier();
    EXPECT_EQ(received.poll(), CLEAVE_PENDING);
    child.barrier();  // no rank sends before both have looked
    EXPECT_EQ(c.run(transfer(CLEAVE_SEND, CLEAVE_INT32, sum.data(), 3, peer)), CLEAVE_OK);
    EXPECT_EQ(received.wait(), CLEAVE_OK);
    late.expect([](int64_t) { return 2; }, "recv");
  });
}

TEST_F(Nccl, SplitWaitsForOpenOperations) {
  on_ranks(2, [](Communicator& c) {
    Buffer data(CLEAVE_FLOAT32, 100'003);
    data.fill([](int64_t) { return 1; });
    Work work = c.start(
        collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(), data.elements()));
    Communicator child(c.split(0, 0));
    EXPECT_EQ(work.poll(), CLEAVE_OK);
    child.barrier();
  });
}

TEST_F(Nccl, MemoryIsOnTheDeviceOnly) {
  on_ranks(1, [](Communicator& c) {
    EXPECT_EQ(c.get()->api->allocate(c.get(), 64, CLEAVE_CPU), nullptr);
    EXPECT_NE(c.error().find("cuda"), std::string::npos) << c.error();
  });
}

TEST_F(Nccl, CapabilitiesAreThoseOfTheDevice) {
  on_ranks(1, [](Communicator& c) {
    const cleave_capabilities can = c.capabilities();
    EXPECT_EQ(can.stream_ordered, 1u);
    for (int op = 0; op < CLEAVE_NUM_OPS; ++op) {
      EXPECT_EQ(can.dtypes[CLEAVE_CUDA][op], (1u << CLEAVE_NUM_DTYPES) - 1) << op_name(op);
      EXPECT_EQ(can.dtypes[CLEAVE_CPU][op], 0u) << op_name(op);
    }
    EXPECT_EQ(c.describe(), "NCCL 2.28.9, CUDA 13.0, Fake GPU");
  });
}

/// Every kind of thing that the plugin makes.
void use_everything(Communicator& c) {
  const int right = (c.rank() + 1) % c.size(), left = (c.rank() + c.size() - 1) % c.size();
  Buffer a(CLEAVE_INT32, 3), b(CLEAVE_INT32, 3);
  Work received = c.start(transfer(CLEAVE_RECV, CLEAVE_INT32, b.data(), 3, left));
  Work sent = c.start(transfer(CLEAVE_SEND, CLEAVE_INT32, a.data(), 3, right));
  EXPECT_EQ(received.wait(), CLEAVE_OK);
  EXPECT_EQ(sent.wait(), CLEAVE_OK);
  Communicator child(c.split(c.rank() % 2, c.rank()));
  child.barrier();
  EXPECT_EQ(child.get()->api->finalize(child.get()), CLEAVE_OK) << child.error();
  c.barrier();
}

TEST_F(Nccl, NothingIsLeftAfterFinalizeAndDestroy) {
  const fake::Counts before = fake::counts();
  on_ranks(3, [](Communicator& c) {
    use_everything(c);
    EXPECT_EQ(c.get()->api->finalize(c.get()), CLEAVE_OK) << c.error();
  });
  const fake::Counts after = fake::counts();
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.events, before.events);
  EXPECT_EQ(after.comms, before.comms);
  EXPECT_EQ(after.allocations, before.allocations);
  const Names names = names_of(fake::calls());
  EXPECT_EQ(std::count(names.begin(), names.end(), "ncclCommAbort"), 0);
  // the world, the child and two channels on each rank
  EXPECT_EQ(std::count(names.begin(), names.end(), "ncclCommFinalize"), 12);
  EXPECT_EQ(std::count(names.begin(), names.end(), "ncclCommDestroy"), 12);
}

TEST_F(Nccl, NothingIsLeftAfterDestroyAlone) {
  const fake::Counts before = fake::counts();
  on_ranks(3, [](Communicator& c) { use_everything(c); });
  const fake::Counts after = fake::counts();
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.events, before.events);
  EXPECT_EQ(after.comms, before.comms);
  EXPECT_EQ(after.allocations, before.allocations);
}

TEST_F(Nccl, EventsAreUsedAgain) {
  on_ranks(1, [](Communicator& c) {
    Buffer data(CLEAVE_FLOAT32, 3);
    const auto call = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(), 3);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(c.run(call), CLEAVE_OK);
    const int before = fake::counts().events;
    for (int i = 0; i < 100; ++i) EXPECT_EQ(c.run(call), CLEAVE_OK);
    // a job that is done may live until the next look of the watch thread
    EXPECT_LE(fake::counts().events, before + 200);
  });
}

}  // namespace
}  // namespace cleave::testing
