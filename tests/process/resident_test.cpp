#include "process/resident.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace cleave {
namespace {

/// Touched pages straight from the kernel, which has them back at the end.
class Pages {
 public:
  Pages() : memory_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, kFlags, -1, 0)) {
    EXPECT_NE(memory_, MAP_FAILED);
    std::memset(memory_, 1, kBytes);
  }
  ~Pages() { ::munmap(memory_, kBytes); }

 private:
  static constexpr size_t kBytes = size_t{64} << 20;
  static constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory_;
};

TEST(Resident, GrowsWithTouchedMemory) {
  const double before = resident_mib();
  Pages pages;
  EXPECT_GT(resident_mib(), before + 60);
}

// Communicators share buffers through such files; a neighbour's is not this process's memory.
TEST(Resident, CountsAFileInMemoryWhereItWasMade) {
  constexpr size_t kBytes = size_t{64} << 20;
  const double before = resident_mib();
  const int file = ::memfd_create("test", 0);
  ASSERT_EQ(::ftruncate(file, kBytes), 0);
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  EXPECT_LT(resident_mib(), before + 4);
  std::memset(memory, 1, kBytes);
  EXPECT_GT(resident_mib(), before + 60);
  ::close(file);  // now it is as a neighbour's, which is mapped and not open
  EXPECT_LT(resident_mib(), before + 4);
  ::munmap(memory, kBytes);
}

}  // namespace
}  // namespace cleave
