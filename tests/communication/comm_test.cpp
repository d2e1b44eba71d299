// The tensor wrapper, over the local backend.
#include "cleave/comm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "cleave/error.h"
#include "ranks.h"

namespace cleave {
namespace {

using ::cleave::testing::Communicator;
using ::cleave::testing::Variant;

struct Traced {
  std::string name;
  int64_t bytes;
};

/// Runs `body(comm, stats)` on `ranks` ranks.
void on_comms(int ranks, const std::function<void(Comm&, CommStats&)>& body,
              int64_t timeout_ms = 60'000) {
  testing::run_ranks(Variant{ranks, 0}, [&](Communicator& c) {
    CommStats stats;
    Comm comm(c.split(0, c.rank()), "data", &stats, timeout_ms);
    body(comm, stats);
  });
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const RuntimeError& error) {
    return error.what();
  }
  return "no error";
}

void expect_error(const std::function<void()>& call, const std::vector<std::string>& parts) {
  const std::string error = error_of(call);
  for (const std::string& part : parts)
    EXPECT_NE(error.find(part), std::string::npos) << "'" << part << "' is not in: " << error;
}

TEST(Comm, CollectivesOverTensors) {
  on_comms(3, [](Comm& comm, CommStats&) {
    at::Tensor data = at::full({2, 3}, comm.rank() + 1, at::kFloat);
    comm.all_reduce(data).wait();
    EXPECT_TRUE(at::equal(data, at::full({2, 3}, 6, at::kFloat)));
    comm.all_reduce(data.fill_(comm.rank()), ReduceOp::max).wait();
    EXPECT_TRUE(at::equal(data, at::full({2, 3}, 2, at::kFloat)));

    at::Tensor block = at::empty({2}, at::kDouble);
    comm.reduce_scatter(block, at::arange(6, at::kDouble)).wait();
    EXPECT_EQ(block[1].item<double>(), 3.0 * (comm.rank() * 2 + 1));

    at::Tensor all = at::zeros({3}, at::kLong);
    comm.all_gather(all, at::full({1}, comm.rank() * 10, at::kLong)).wait();
    EXPECT_TRUE(at::equal(all, at::arange(3, at::kLong) * 10));

    at::Tensor transposed = at::zeros({3}, at::kInt);
    comm.all_to_all(transposed, at::arange(3, at::kInt) + 10 * comm.rank()).wait();
    EXPECT_TRUE(at::equal(transposed, at::arange(3, at::kInt) * 10 + comm.rank()));

    at::Tensor word = at::full({1}, comm.rank(), at::kBFloat16);
    comm.broadcast(word, 2).wait();
    EXPECT_EQ(word.item<float>(), 2.0f);
    comm.barrier();
    comm.finalize();
  });
}

TEST(Comm, UnevenForms) {
  on_comms(2, [](Comm& comm, CommStats&) {
    const std::vector<int64_t> counts = {0, 3};
    const int64_t own = counts[static_cast<size_t>(comm.rank())];
    at::Tensor all = at::zeros({3}, at::kFloat);
    comm.all_gather_v(all, at::full({own}, 5, at::kFloat), counts).wait();
    EXPECT_TRUE(at::equal(all, at::full({3}, 5, at::kFloat)));
    at::Tensor mine = at::zeros({own}, at::kFloat);
    comm.reduce_scatter_v(mine, all, counts).wait();
    EXPECT_TRUE(at::equal(mine, at::full({own}, 10, at::kFloat)));
    at::Tensor received = at::zeros({2 * own}, at::kFloat);
    comm.all_to_all_v(received, at::full({3}, comm.rank(), at::kFloat), {own, own}, counts).wait();
    if (comm.rank() == 1) {
      EXPECT_EQ(received[3].item<float>(), 1.0f);
    }
  });
}

TEST(Comm, SendsInAGroupMayComeFirst) {
  on_comms(2, [](Comm& comm, CommStats&) {
    const int peer = 1 - comm.rank();
    at::Tensor outgoing = at::full({300'000}, comm.rank(), at::kFloat);
    at::Tensor incoming = at::empty({300'000}, at::kFloat);
    comm.group_begin();
    Work send = comm.send(outgoing, peer, 4);
    Work receive = comm.recv(incoming, peer, 4);
    comm.group_end();
    send.wait();
    receive.wait();
    EXPECT_TRUE(at::equal(incoming, at::full({300'000}, peer, at::kFloat)));
  });
}

TEST(Comm, CountsPayloadWireBytesAndCalls) {
  on_comms(4, [](Comm& comm, CommStats& stats) {
    comm.all_reduce(at::zeros({1000}, at::kFloat)).wait();
    EXPECT_EQ(stats.calls[CLEAVE_ALL_REDUCE], 1);
    EXPECT_EQ(stats.payload_bytes[CLEAVE_ALL_REDUCE], 4000);
    EXPECT_DOUBLE_EQ(stats.wire_bytes, 4000 * 2 * 3.0 / 4);
    stats.wire_bytes = 0;
    comm.reduce_scatter(at::zeros({10}, at::kFloat), at::zeros({40}, at::kFloat)).wait();
    EXPECT_EQ(stats.payload_bytes[CLEAVE_REDUCE_SCATTER], 160);
    EXPECT_DOUBLE_EQ(stats.wire_bytes, 160 * 3.0 / 4);
    stats.wire_bytes = 0;
    comm.all_gather(at::zeros({40}, at::kHalf), at::zeros({10}, at::kHalf)).wait();
    EXPECT_EQ(stats.payload_bytes[CLEAVE_ALL_GATHER], 80);
    EXPECT_DOUBLE_EQ(stats.wire_bytes, 80 * 3.0 / 4);
    EXPECT_GE(stats.exposed_ms, 0.0);
  });
}

TEST(Comm, OneRankSendsNothing) {
  on_comms(1, [](Comm& comm, CommStats& stats) {
    at::Tensor data = at::full({5}, 3, at::kFloat);
    comm.all_reduce(data).wait();
    comm.broadcast(data, 0).wait();
    EXPECT_TRUE(at::equal(data, at::full({5}, 3, at::kFloat)));
    EXPECT_EQ(stats.wire_bytes, 0.0);
  });
}

TEST(Comm, TracesEachOperationOnce) {
  on_comms(2, [](Comm& comm, CommStats&) {
    std::vector<Traced> traced;
    comm.set_trace([&](const std::string& name, int64_t bytes, auto submitted, auto completed) {
      EXPECT_LE(submitted, completed);
      traced.push_back({name, bytes});
    });
    Work work = comm.all_reduce(at::zeros({8}, at::kFloat));
    work.wait();
    work.wait();
    EXPECT_TRUE(work.done());
    comm.barrier();
    ASSERT_EQ(traced.size(), 2u);
    EXPECT_EQ(traced[0].name, "data.all_reduce");
    EXPECT_EQ(traced[0].bytes, 32);
    EXPECT_EQ(traced[1].name, "data.barrier");
  });
}

TEST(Comm, DetachedWorkKeepsItsTensorUntilItIsDone) {
  on_comms(2, [](Comm& comm, CommStats&) {
    at::Tensor incoming = at::zeros({100'000}, at::kFloat);
    const int peer = 1 - comm.rank();
    comm.recv(incoming, peer);  // dropped
    EXPECT_EQ(incoming.use_count(), 2u);
    comm.barrier();
    comm.send(at::full({100'000}, 9, at::kFloat), peer);  // dropped: its only reference
    comm.finalize();                                      // waits for both
    EXPECT_EQ(incoming.use_count(), 1u);
    EXPECT_TRUE(at::equal(incoming, at::full({100'000}, 9, at::kFloat)));
  });
}

TEST(Comm, WorkAndMemoryMayOutliveTheComm) {
  testing::run_ranks(Variant{2, 0}, [&](Communicator& c) {
    CommStats stats;
    at::Tensor memory;
    Work work;
    {
      Comm comm(c.split(0, c.rank()), "data", &stats, 60'000);
      memory = comm.allocate(1000, at::kFloat, at::kCPU);
      memory.fill_(1);
      work = comm.all_reduce(memory);
    }
    work.wait();
    EXPECT_TRUE(at::equal(memory, at::full({1000}, 2, at::kFloat)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data_ptr()) % 64, 0u);
  });
}

TEST(Comm, SplitGivesANamedGroup) {
  on_comms(4, [](Comm& comm, CommStats&) {
    const auto pair = comm.split(comm.rank() / 2, comm.rank(), "tensor");
    ASSERT_NE(pair, nullptr);
    EXPECT_EQ(pair->name(), "tensor");
    EXPECT_EQ(pair->size(), 2);
    at::Tensor data = at::full({1}, comm.rank(), at::kLong);
    pair->all_reduce(data).wait();
    EXPECT_EQ(data.item<int64_t>(), comm.rank() < 2 ? 1 : 5);
    EXPECT_EQ(comm.split(comm.rank() == 0 ? -1 : 0, 0, "rest") == nullptr, comm.rank() == 0);
  });
}

TEST(Comm, SizeLawsNameBothNumbers) {
  on_comms(2, [](Comm& comm, CommStats&) {
    const auto zeros = [](int64_t n) { return at::zeros({n}, at::kFloat); };
    expect_error([&] { comm.all_gather(zeros(7), zeros(4)); },
                 {"communicator data", "all_gather", "7 elements", "8", "2 ranks x input of 4"});
    expect_error([&] { comm.reduce_scatter(zeros(4), zeros(7)); }, {"reduce_scatter", "7", "8"});
    expect_error([&] { comm.all_gather_v(zeros(5), zeros(2), {2, 2}); }, {"5 elements", "4"});
    expect_error([&] { comm.all_gather_v(zeros(5), zeros(2), {5}); }, {"1 counts for 2 ranks"});
    expect_error([&] { comm.all_to_all(zeros(5), zeros(5)); }, {"5 elements", "2 ranks"});
    expect_error([&] { comm.all_gather(at::zeros({8}, at::kDouble), zeros(4)); },
                 {"input is Float on cpu, output is Double"});
    expect_error(
        [&] {
          comm.all_reduce(at::zeros({4, 4}, at::kFloat).t().slice(0, 0, 2));
        },
        {"not dense", "[2, 4]"});
    expect_error([&] { comm.all_reduce(at::zeros({4}, at::kBool)); },
                 {"all_reduce", "Bool", "cpu", "not supported"});
    expect_error([&] { comm.broadcast(zeros(1), 2); }, {"broadcast", "peer 2"});
    comm.barrier();
  });
}

TEST(Comm, FailuresNameTheOperation) {
  on_comms(
      2,
      [](Comm& comm, CommStats&) {
        at::Tensor data = at::zeros({10}, at::kFloat);
        expect_error([&] { comm.recv(data, 1 - comm.rank()).wait(); },
                     {"communicator data, rank " + std::to_string(comm.rank()) + " of 2",
                      "recv number 1 of 40 bytes", "timed out", "30 ms"});
      },
      30);
}

TEST(Comm, FailureOfADetachedWorkIsReportedByTheNextCall) {
  on_comms(
      1,
      [](Comm& comm, CommStats&) {
        comm.recv(at::zeros({10}, at::kFloat), 0);
        std::string error = "no error";
        while (error == "no error") error = error_of([&] { comm.barrier(); });
        EXPECT_NE(error.find("recv number 1"), std::string::npos) << error;
        EXPECT_NE(error.find("timed out"), std::string::npos) << error;
      },
      30);
}

TEST(Comm, AbortEndsEveryWait) {
  on_comms(3, [](Comm& comm, CommStats&) {
    if (comm.rank() == 1) {
      comm.abort();
      return;
    }
    expect_error([&] { comm.barrier(); }, {"barrier number 1", "aborted"});
  });
}

TEST(Comm, SupportsAnswersBeforeAnythingIsCalled) {
  on_comms(1, [](Comm& comm, CommStats&) {
    EXPECT_TRUE(comm.supports(CLEAVE_ALL_REDUCE, at::kBFloat16, at::kCPU));
    EXPECT_FALSE(comm.supports(CLEAVE_ALL_REDUCE, at::kBFloat16, at::kCUDA));
    EXPECT_FALSE(comm.supports(CLEAVE_ALL_REDUCE, at::kBool, at::kCPU));
  });
}

}  // namespace
}  // namespace cleave
