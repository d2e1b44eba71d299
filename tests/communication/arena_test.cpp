// The memory that processes of one machine share.
#include "arena.h"

#include <gtest/gtest.h>

#include <cstring>

namespace cleave::mpi {
namespace {

TEST(Arena, ASecondMappingSeesWhatTheFirstWrites) {
  const auto arena = Arena::create();
  ASSERT_TRUE(arena);
  void* memory = arena->allocate(1000);
  std::memset(memory, 7, 1000);
  const Mapping other = map_arena(arena->address());
  ASSERT_TRUE(other.data());
  EXPECT_EQ(static_cast<int>(other.data()[*arena->offset(memory, 1000) + 999]), 7);
}

TEST(Arena, FreedNeighboursBecomeOneHole) {
  const auto arena = Arena::create();
  ASSERT_TRUE(arena);
  void* a = arena->allocate(100);
  void* b = arena->allocate(100);
  void* c = arena->allocate(100);
  void* d = arena->allocate(100);
  EXPECT_TRUE(arena->deallocate(a));
  EXPECT_TRUE(arena->deallocate(c));
  EXPECT_TRUE(arena->deallocate(b));
  EXPECT_EQ(arena->allocate(384), a);  // three times 100, on 64 bytes each
  EXPECT_TRUE(arena->deallocate(d));
}

TEST(Arena, KnowsWhatIsItsOwn) {
  const auto arena = Arena::create();
  ASSERT_TRUE(arena);
  int elsewhere = 0;
  EXPECT_FALSE(arena->offset(&elsewhere, sizeof elsewhere));
  EXPECT_FALSE(arena->deallocate(&elsewhere));
  void* memory = arena->allocate(64);
  EXPECT_FALSE(arena->deallocate(static_cast<char*>(memory) + 8));
  EXPECT_TRUE(arena->deallocate(memory));
  EXPECT_FALSE(arena->deallocate(memory));
}

TEST(Arena, SaysWhenItIsFull) {
  const auto arena = Arena::create();
  ASSERT_TRUE(arena);
  EXPECT_EQ(arena->allocate(arena->address().bytes + 1), nullptr);
  EXPECT_EQ(arena->allocate(uint64_t{1} << 63), nullptr);
}

TEST(Arena, AnAddressThatLeadsNowhereIsNoMapping) {
  EXPECT_FALSE(map_arena({0, 0, 4096}).data());
  EXPECT_FALSE(map_arena({1, 999, 0}).data());
}

}  // namespace
}  // namespace cleave::mpi
