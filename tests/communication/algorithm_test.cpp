// Which algorithm the mpi plugin chooses, without any MPI.
#include "algorithm.h"

#include <gtest/gtest.h>

namespace cleave::mpi {
namespace {

constexpr int64_t kMiB = 1 << 20;

Policy policy(double alpha_us = 30, double gb_s = 1) {
  Policy policy;
  policy.max_message_bytes = 1 << 30;
  policy.link = {alpha_us, gb_s, "test"};
  return policy;
}

Algorithm choose(cleave_op op, int64_t bytes, const Shape& shape, const Policy& policy,
                 cleave_dtype dtype = CLEAVE_FLOAT32) {
  return choose_algorithm(op, dtype, CLEAVE_SUM, bytes, shape, policy);
}

const Shape kOneMachine{4, 1, 4, true, false, true};
const Shape kFlat{8, 8, 1, false, false, true};
const Shape kThree{3, 3, 1, false, false, true};
const Shape kLevels{8, 4, 2, false, true, true};

TEST(Algorithm, RanksOfOneMachineUseTheirMemory) {
  for (const cleave_op op : {CLEAVE_ALL_REDUCE, CLEAVE_REDUCE_SCATTER, CLEAVE_ALL_GATHER,
                             CLEAVE_BROADCAST, CLEAVE_ALL_TO_ALL, CLEAVE_BARRIER})
    EXPECT_EQ(choose(op, 64 * kMiB, kOneMachine, policy()), Algorithm::shared);
  EXPECT_EQ(choose(CLEAVE_SEND, kMiB, kOneMachine, policy()), Algorithm::message);
}

TEST(Algorithm, UnevenAllToAllSendsMessagesSinceOthersDoNotKnowItsSizes) {
  EXPECT_EQ(choose_algorithm(CLEAVE_ALL_TO_ALL, CLEAVE_UINT8, CLEAVE_SUM, 100, kOneMachine,
                             policy(), true),
            Algorithm::direct);
}

TEST(Algorithm, SizeDecidesBetweenMachines) {
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 64, kFlat, policy()), Algorithm::direct);
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 256 * 1024, kFlat, policy()), Algorithm::halving);
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 64 * kMiB, kThree, policy()), Algorithm::ring);
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 64 * kMiB, kFlat, policy()), Algorithm::ring);
  const Shape two{2, 2, 1, false, false, true};
  EXPECT_EQ(choose(CLEAVE_ALL_GATHER, 64 * kMiB, two, policy()), Algorithm::ring);
}

TEST(Algorithm, TheMeasuredLinkDecidesToo) {
  const int64_t bytes = 16 * 1024;
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, bytes, kFlat, policy(1000, 1)), Algorithm::direct);
  EXPECT_NE(choose(CLEAVE_ALL_REDUCE, bytes, kFlat, policy(1, 0.01)), Algorithm::direct);
}

TEST(Algorithm, LevelsKeepBytesOffTheNetwork) {
  for (const cleave_op op : {CLEAVE_ALL_REDUCE, CLEAVE_REDUCE_SCATTER, CLEAVE_ALL_GATHER})
    EXPECT_EQ(choose(op, 64 * kMiB, kLevels, policy()), Algorithm::two_level);
  Shape scattered = kLevels;
  scattered.is_consecutive = false;
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 64 * kMiB, scattered, policy()), Algorithm::two_level);
  EXPECT_EQ(choose(CLEAVE_ALL_GATHER, 64 * kMiB, scattered, policy()), Algorithm::ring);
}

bool rounds_once(Algorithm algorithm) {
  return algorithm == Algorithm::direct || algorithm == Algorithm::direct_then_ring ||
         algorithm == Algorithm::rounded_levels;
}

TEST(Algorithm, SumsThatMustBeRoundedOnceAreNotPassedOn) {
  for (const Shape& shape : {kFlat, kThree, kLevels})
    for (const int64_t bytes : {int64_t{64}, kMiB, 256 * kMiB}) {
      const Algorithm halves = choose(CLEAVE_ALL_REDUCE, bytes, shape, policy(), CLEAVE_BFLOAT16);
      EXPECT_TRUE(rounds_once(halves)) << algorithm_name(halves);
      const Algorithm blocks =
          choose(CLEAVE_REDUCE_SCATTER, bytes, shape, policy(), CLEAVE_FLOAT16);
      EXPECT_TRUE(rounds_once(blocks)) << algorithm_name(blocks);
      Policy ordered = policy();
      ordered.deterministic = true;
      for (const cleave_op op : {CLEAVE_ALL_REDUCE, CLEAVE_REDUCE_SCATTER}) {
        const Algorithm sums = choose(op, bytes, shape, ordered);
        EXPECT_TRUE(sums == Algorithm::direct || sums == Algorithm::direct_then_ring ||
                    sums == Algorithm::ordered_levels);
        const Algorithm both = choose(op, bytes, shape, ordered, CLEAVE_BFLOAT16);
        EXPECT_TRUE(rounds_once(both)) << algorithm_name(both);
      }
    }
}

TEST(Algorithm, SumsOf16BitFloatsKeepBytesOffTheNetworkWhereAMachineHasManyRanks) {
  const Shape four{8, 2, 4, false, true, true};
  for (const cleave_op op : {CLEAVE_ALL_REDUCE, CLEAVE_REDUCE_SCATTER})
    EXPECT_EQ(choose(op, 64 * kMiB, four, policy(), CLEAVE_BFLOAT16), Algorithm::rounded_levels);
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 64 * kMiB, kFlat, policy(), CLEAVE_BFLOAT16),
            Algorithm::direct_then_ring);
  EXPECT_EQ(
      choose_algorithm(CLEAVE_ALL_REDUCE, CLEAVE_BFLOAT16, CLEAVE_MAX, 64 * kMiB, four, policy()),
      Algorithm::two_level);
}

TEST(Algorithm, OrderedSumsKeepBytesOffTheNetworkToo) {
  Policy ordered = policy();
  ordered.deterministic = true;
  for (const cleave_op op : {CLEAVE_ALL_REDUCE, CLEAVE_REDUCE_SCATTER})
    EXPECT_EQ(choose(op, 64 * kMiB, kLevels, ordered), Algorithm::ordered_levels);
  EXPECT_EQ(choose(CLEAVE_ALL_GATHER, 64 * kMiB, kLevels, ordered), Algorithm::two_level);
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 64 * kMiB, kFlat, ordered), Algorithm::direct_then_ring);
  Shape scattered = kLevels;
  scattered.is_consecutive = false;
  EXPECT_EQ(choose(CLEAVE_REDUCE_SCATTER, 64 * kMiB, scattered, ordered), Algorithm::direct);
}

TEST(Algorithm, WhatIsForcedIsUsedWhereItCan) {
  Policy forced = policy();
  forced.forced = Algorithm::ring;
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 64, kOneMachine, forced), Algorithm::ring);
  EXPECT_NE(choose(CLEAVE_ALL_REDUCE, 64, kFlat, forced, CLEAVE_BFLOAT16), Algorithm::ring);
  EXPECT_EQ(choose(CLEAVE_BROADCAST, 64, kOneMachine, forced), Algorithm::chain);
  forced.forced = Algorithm::halving;
  EXPECT_EQ(choose(CLEAVE_ALL_GATHER, kMiB, kFlat, forced), Algorithm::halving);
  EXPECT_NE(choose(CLEAVE_ALL_GATHER, kMiB, kThree, forced), Algorithm::halving);
  forced.forced = Algorithm::two_level;
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 64, kLevels, forced), Algorithm::two_level);
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 64, kOneMachine, forced), Algorithm::shared);
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 64, kLevels, forced, CLEAVE_FLOAT16),
            Algorithm::rounded_levels);
  forced.deterministic = true;
  EXPECT_EQ(choose(CLEAVE_ALL_REDUCE, 64, kLevels, forced), Algorithm::ordered_levels);
}

TEST(Algorithm, NamesGoBothWays) {
  for (const char* name :
       {"auto", "direct", "ring", "halving-doubling", "two-level", "shared-memory"})
    EXPECT_STREQ(algorithm_name(parse_algorithm(name)), name);
}

}  // namespace
}  // namespace cleave::mpi
