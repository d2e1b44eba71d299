// What the mpi plugin's operations send between machines, by its formulas, without any MPI.
#include "network_bytes.h"

#include <gtest/gtest.h>

namespace cleave::mpi {
namespace {

constexpr int64_t kBytes = 840;  // divides by 2, 3, 4, 5, 6, 7, 8

using Machines = std::vector<int>;
const Machines kFlat{0, 1, 2, 3};
const Machines kThree{0, 1, 2};
const Machines kTwoByTwo{0, 0, 1, 1};
const Machines kScattered{0, 1, 0, 1};
const Machines kFourByTwo{0, 0, 1, 1, 2, 2, 3, 3};
const Machines kUneven{0, 0, 0, 1, 1};

/// In units of the larger buffer.
double buffers(cleave_op op, Algorithm algorithm, const Machines& machine_of) {
  return network_bytes(op, algorithm, kBytes, machine_of) / kBytes;
}

TEST(NetworkBytes, NothingLeavesOneMachine) {
  for (const Algorithm algorithm :
       {Algorithm::direct, Algorithm::ring, Algorithm::halving, Algorithm::shared,
        Algorithm::direct_then_ring, Algorithm::chain, Algorithm::message})
    for (const Machines& machine_of : {Machines{0}, Machines{0, 0, 0, 0}})
      EXPECT_EQ(buffers(CLEAVE_ALL_REDUCE, algorithm, machine_of), 0);
}

TEST(NetworkBytes, OneRankAMachineSendsAllThatIsSent) {
  const double share = 3.0 / 4;  // (n-1)/n, from each of 4 ranks
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving}) {
    EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, algorithm, kFlat), 4 * 2 * share);
    EXPECT_DOUBLE_EQ(buffers(CLEAVE_REDUCE_SCATTER, algorithm, kFlat), 4 * share);
    EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_GATHER, algorithm, kFlat), 4 * share);
  }
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, Algorithm::direct_then_ring, kFlat), 4 * 2 * share);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_REDUCE_SCATTER, Algorithm::direct, kFlat), 4 * share);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_TO_ALL, Algorithm::direct, kFlat), 4 * share);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_BROADCAST, Algorithm::chain, kFlat), 3);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, Algorithm::direct, kThree), 3 * 2);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, Algorithm::ring, kThree), 3 * 2 * 2.0 / 3);
}

TEST(NetworkBytes, ARingLeavesEachMachineOnce) {
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, Algorithm::ring, kTwoByTwo), 2 * 2 * 3.0 / 4);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_GATHER, Algorithm::ring, kFourByTwo), 4 * 7.0 / 8);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_GATHER, Algorithm::ring, kUneven), 2 * 4.0 / 5);
  // it goes machine after machine, wherever the ranks are
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, Algorithm::ring, kScattered), 2 * 2 * 3.0 / 4);
}

TEST(NetworkBytes, HalvingsCrossAtTheDistancesBetweenMachines) {
  // 2 blocks of 4 at distance 2; 1 block at distance 1
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_REDUCE_SCATTER, Algorithm::halving, kTwoByTwo), 4 * 2.0 / 4);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, Algorithm::halving, kScattered), 2 * 4 * 1.0 / 4);
  // distances 4 and 2 of 8 ranks
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_GATHER, Algorithm::halving, kFourByTwo), 8 * (4 + 2) / 8.0);
}

TEST(NetworkBytes, TwoLevelsSendWhatOneRankAMachineWould) {
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, Algorithm::two_level, kFourByTwo), 2 * 3);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, Algorithm::ordered_levels, kFourByTwo), 2 * 3);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_REDUCE_SCATTER, Algorithm::two_level, kFourByTwo), 3);
  // float32 there, 16-bit floats back
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, Algorithm::rounded_levels, kFourByTwo), (2 + 1) * 3);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_REDUCE_SCATTER, Algorithm::rounded_levels, kFourByTwo), 2 * 3);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_GATHER, Algorithm::two_level, kTwoByTwo), 1);
}

TEST(NetworkBytes, DirectMessagesGoFromEachRankToEachOnAnotherMachine) {
  const int pairs = 2 * 3 * 2;  // uneven: 3 ranks and 2
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, Algorithm::direct, kUneven), pairs);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_GATHER, Algorithm::direct, kUneven), pairs / 5.0);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_TO_ALL, Algorithm::direct, kScattered), 8 / 4.0);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_ALL_REDUCE, Algorithm::direct_then_ring, kUneven),
                   pairs / 5.0 + 2 * 4 / 5.0);
}

TEST(NetworkBytes, AChainPassesEachLinkOnItsWay) {
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_BROADCAST, Algorithm::chain, kFourByTwo), 3);
  EXPECT_DOUBLE_EQ(buffers(CLEAVE_BROADCAST, Algorithm::chain, kScattered), 3);
}

TEST(NetworkBytes, BarriersAreEmptyAndSendsDoNotSayWhereTo) {
  EXPECT_EQ(network_bytes(CLEAVE_BARRIER, Algorithm::dissemination, 0, kTwoByTwo), 0);
  EXPECT_LT(network_bytes(CLEAVE_SEND, Algorithm::message, kBytes, kTwoByTwo), 0);
}

}  // namespace
}  // namespace cleave::mpi
