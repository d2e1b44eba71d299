#include "split_message.h"

#include <gtest/gtest.h>

#include <limits>

namespace cleave::mpi {
namespace {

TEST(SplitMessage, CoversTheTransferInOrder) {
  for (const int64_t limit : {7, 1000, 1 << 30}) {
    for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{20'001}}) {
      int64_t next = 0;
      for (const Message& part : split_message(bytes, limit)) {
        EXPECT_EQ(part.offset, next);
        EXPECT_GT(part.bytes, 0);
        EXPECT_LE(part.bytes, limit);
        next += part.bytes;
      }
      EXPECT_EQ(next, bytes);
    }
  }
}

TEST(SplitMessage, CountsStayBelowMpisLimitAndOffsetsAre64Bit) {
  const int64_t bytes = 8 * ((int64_t{1} << 31) + 5);  // 2^31 + 5 float64
  const auto parts = split_message(bytes, int64_t{1} << 30);
  ASSERT_EQ(parts.size(), 17u);
  for (const Message& part : parts) EXPECT_LE(part.bytes, std::numeric_limits<int>::max());
  EXPECT_EQ(parts.back().offset, int64_t{16} << 30);
  EXPECT_EQ(parts.back().bytes, 40);
}

}  // namespace
}  // namespace cleave::mpi
