// What only the local backend can see: that the ranks' calls differ, and that a rank has left.
#include "buffer.h"
#include "ranks.h"

namespace cleave::testing {
namespace {

using Mismatch = Ranks;

/// The last rank makes `odd`, the others `usual`; every rank must get an error that names both.
void expect_mismatch(Communicator& c, const cleave_collective& usual, const cleave_collective& odd,
                     const std::string& usual_text, const std::string& odd_text) {
  if (c.size() == 1) return;
  EXPECT_EQ(c.run(c.rank() == c.size() - 1 ? odd : usual), CLEAVE_FAILED);
  const std::string error = c.error();
  EXPECT_NE(error.find(usual_text), std::string::npos) << error;
  EXPECT_NE(error.find(odd_text), std::string::npos) << error;
  EXPECT_NE(error.find("rank " + std::to_string(c.size() - 1)), std::string::npos) << error;
}

TEST_P(Mismatch, IsAnErrorOnAllRanksThatNamesBothCalls) {
  on_ranks([](Communicator& c) {
    Buffer in(CLEAVE_FLOAT64, 64);
    Buffer out(CLEAVE_FLOAT64, 64 * 8);
    const auto sum = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, in.data(), out.data(), 8);
    auto other = sum;
    other.count = 9;
    expect_mismatch(c, sum, other, "all_reduce sum of 8 float32", "all_reduce sum of 9 float32");
    other = sum;
    other.dtype = CLEAVE_INT32;
    expect_mismatch(c, sum, other, "8 float32", "8 int32");
    other = sum;
    other.reduction = CLEAVE_MAX;
    expect_mismatch(c, sum, other, "all_reduce sum", "all_reduce max");
    other = sum;
    other.op = CLEAVE_ALL_GATHER;
    expect_mismatch(c, sum, other, "all_reduce sum of 8", "all_gather of [8");
    auto root = collective(CLEAVE_BROADCAST, CLEAVE_FLOAT32, nullptr, out.data(), 8);
    auto other_root = root;
    other_root.peer = c.size() - 1;
    expect_mismatch(c, root, other_root, "from rank 0",
                    "from rank " + std::to_string(c.size() - 1));
    c.barrier();
  });
}

TEST_P(Mismatch, UnevenCountsAreCompared) {
  on_ranks([](Communicator& c) {
    Buffer in(CLEAVE_FLOAT64, 64);
    Buffer out(CLEAVE_FLOAT64, 64);
    std::vector<int64_t> counts(static_cast<size_t>(c.size()), 2);
    std::vector<int64_t> other_counts = counts;
    other_counts.front() = 3;
    auto usual = collective(CLEAVE_REDUCE_SCATTER, CLEAVE_FLOAT32, in.data(), out.data(), 2);
    usual.recv_counts = counts.data();
    auto odd = usual;
    odd.recv_counts = other_counts.data();
    expect_mismatch(c, usual, odd, "[2, 2", "[3, 2");
    if (c.size() == 1) return;

    auto exchange = collective(CLEAVE_ALL_TO_ALL, CLEAVE_FLOAT32, in.data(), out.data(), 0);
    exchange.recv_counts = counts.data();
    exchange.send_counts = c.rank() == 1 ? other_counts.data() : counts.data();
    EXPECT_EQ(c.run(exchange), CLEAVE_FAILED);
    EXPECT_NE(c.error().find("rank 1 sends 3 elements to rank 0 and must send 2"),
              std::string::npos)
        << c.error();
  });
}

TEST_P(Mismatch, TransferSizesAreCompared) {
  on_ranks([](Communicator& c) {
    Buffer out(CLEAVE_INT32, 8);
    Buffer in(CLEAVE_INT32, 8);
    const int right = (c.rank() + 1) % c.size();
    const int left = (c.rank() + c.size() - 1) % c.size();
    Work send = c.start(transfer(CLEAVE_SEND, CLEAVE_INT32, out.data(), 8, right));
    EXPECT_EQ(c.run(transfer(CLEAVE_RECV, CLEAVE_INT32, in.data(), 7, left)), CLEAVE_FAILED);
    EXPECT_NE(c.error().find("send of 8 int32, recv of 7 int32"), std::string::npos) << c.error();
    EXPECT_EQ(send.wait(), CLEAVE_FAILED);
  });
}

TEST_P(Mismatch, ARankThatLeavesFailsTheOthers) {
  on_ranks([](Communicator& c) {
    if (c.size() == 1) return;
    std::vector<float> data(1 << 20, 1.0f);
    cleave_communicator* child = c.split(0, c.rank());
    const auto call = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(),
                                 static_cast<int64_t>(data.size()));
    if (c.rank() == 0) {
      Communicator gone(child);
      gone.start(call);  // released and left while it is open
      if (c.size() > 2) return;
    }
    if (c.rank() == 0) return;
    Communicator stays(child);
    if (c.rank() == 1) return;  // never calls
    EXPECT_EQ(stays.run(call), CLEAVE_FAILED);
    EXPECT_NE(stays.error().find("left the communicator"), std::string::npos) << stays.error();
  });
}

TEST(LocalBackend, RefusesRanksThatAreProcesses) {
  const cleave_plugin& plugin = load_plugin(CLEAVE_LOCAL_PLUGIN);
  cleave_bootstrap bootstrap{};
  bootstrap.struct_size = sizeof bootstrap;
  bootstrap.world_size = 2;
  cleave_communicator* created = nullptr;
  char error[512] = "";
  EXPECT_EQ(plugin.create_communicator(&bootstrap, nullptr, &created, error, sizeof error),
            CLEAVE_INVALID);
  EXPECT_EQ(created, nullptr);
  EXPECT_NE(std::string(error).find("local runs ranks as threads of one process"),
            std::string::npos)
      << error;
  EXPECT_NE(std::string(error).find("mpi"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(, Mismatch, ::testing::ValuesIn(variants()));

}  // namespace
}  // namespace cleave::testing
