#include "process/resident.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

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

TEST(Resident, PeakOutlivesTheMemory) {
  const double before = resident_mib();
  { Pages pages; }
  EXPECT_LT(resident_mib(), before + 32);
  EXPECT_GE(peak_resident_mib(), before + 60);
}

}  // namespace
}  // namespace cleave
