// On nodes with network interfaces of their own (tools/netlab): what the interfaces count while an
// operation runs is what the plugin's formula says.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cleave/backend.h"
#include "process/network_counters.h"
#include "ranks.h"

namespace cleave::testing {
namespace {

// Headers and acknowledgements count, and they are the smaller part the longer the messages.
constexpr double kTolerance = 0.03;

int64_t sent_by_node() {
  const char* local_rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  return local_rank && std::string(local_rank) != "0" ? 0 : total_network_sent_bytes();
}

int64_t sum(Communicator& c, int64_t value) {
  EXPECT_EQ(c.run(collective(CLEAVE_ALL_REDUCE, CLEAVE_INT64, &value, &value, 1)), CLEAVE_OK);
  return value;
}

struct Operation {
  cleave_op op;
  cleave_dtype dtype;
  int64_t bytes;  // of the larger buffer
};

/// Of one call, by the interfaces of all nodes; the least of three times, for what TCP sent twice.
double count(Communicator& c, const Operation& operation, int calls) {
  const bool has_blocks = operation.op != CLEAVE_ALL_REDUCE && operation.op != CLEAVE_BROADCAST;
  const int64_t elements = operation.bytes / dtype_bytes(operation.dtype);
  std::vector<std::byte> send(static_cast<size_t>(operation.bytes)), recv(send.size());
  const auto call = collective(operation.op, operation.dtype, send.data(), recv.data(),
                               has_blocks ? elements / c.size() : elements);
  EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();  // connections are made
  int64_t least = INT64_MAX;
  for (int time = 0; time < 3; ++time) {
    c.barrier();
    const int64_t before = sent_by_node();
    c.barrier();
    for (int i = 0; i < calls; ++i) EXPECT_EQ(c.run(call), CLEAVE_OK) << c.error();
    c.barrier();
    least = std::min(least, sum(c, sent_by_node() - before));
  }
  return static_cast<double>(least) / calls;
}

/// Compares them; `calls` for the mean.
void expect_formula(Communicator& c, const Operation& operation, int calls) {
  const cleave_communicator_api& api = *c.get()->api;
  const double formula =
      api.network_bytes(c.get(), operation.op, operation.dtype, operation.bytes, CLEAVE_CPU);
  const double counted = count(c, operation, calls);
  const std::string algorithm =
      api.algorithm(c.get(), operation.op, operation.dtype, operation.bytes, CLEAVE_CPU);
  if (c.rank() == 0)
    std::printf("%-15s %-9s %9lld bytes, %-16s formula %10.0f, counted %10.0f, %+.2f %%\n",
                op_name(operation.op), dtype_name(operation.dtype),
                static_cast<long long>(operation.bytes), algorithm.c_str(), formula, counted,
                100 * (counted / formula - 1));
  EXPECT_GT(formula, 0);
  EXPECT_NEAR(counted, formula, kTolerance * formula)
      << op_name(operation.op) << " of " << operation.bytes << " bytes by " << algorithm;
}

class Network : public Ranks {};

TEST_P(Network, CountersAgreeWithTheFormula) {
  constexpr int64_t kBytes = 2 * 1000 * 1008;  // divides by up to 4 ranks
  on_ranks([](Communicator& c) {
    for (const cleave_dtype dtype : {CLEAVE_FLOAT32, CLEAVE_BFLOAT16})
      for (const cleave_op op : {CLEAVE_ALL_REDUCE, CLEAVE_REDUCE_SCATTER, CLEAVE_ALL_GATHER,
                                 CLEAVE_BROADCAST, CLEAVE_ALL_TO_ALL})
        expect_formula(c, {op, dtype, kBytes}, 2);
  });
}

TEST_P(Network, SoTheyDoForSmallSumsSentToAll) {
  on_ranks([](Communicator& c) {
    expect_formula(c, {CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, 48'000}, 25);
  });
}

/// Of every algorithm, in long messages.
std::vector<Variant> algorithms() {
  const int ranks = variants().front().ranks;
  return {{ranks, 0},
          {ranks, 0, "direct"},
          {ranks, 0, "ring"},
          {ranks, 0, "two-level"},
          {ranks, 0, "halving-doubling"},
          {ranks, 0, "auto", true}};
}

INSTANTIATE_TEST_SUITE_P(, Network, ::testing::ValuesIn(algorithms()));

}  // namespace
}  // namespace cleave::testing
