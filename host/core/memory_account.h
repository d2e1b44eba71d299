// Bytes of tensors per category on this rank, from c10's memory reporting hook (no CUDA headers).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "cleave/memory.h"

namespace cleave {

constexpr size_t kMemoryCategories = static_cast<size_t>(MemoryCategory::count);

/// By category.
using MemoryShares = std::array<int64_t, kMemoryCategories>;

/// Memory that there was not, and who held the rest.
struct FailedAllocation {
  int64_t bytes;
  MemoryCategory category;
  MemoryShares in_use;
};

/// Installed on the thread that constructs it (and, through torch's debug info, on the autograd
/// work that it starts) from before the rank's first tensor until destruction, which is on the same
/// thread. One per rank; several may live in one process, on different threads. Allocations are
/// booked to the category of the innermost MemoryScope, frees to the category that the block was
/// booked to.
///
/// What it can't see: memory that nobody reports to c10 (at::from_blob; Comm::allocate does
/// report), allocations of threads that don't carry the debug info, and anything while
/// torch's own profiler records memory (it takes the same hook). A block of this rank that such a
/// thread frees stays booked, so the total is too high by its size, until the allocator gives its
/// address out again: then the lost block is taken off first. Tensors that cross threads are
/// therefore best released on the rank's main thread.
class MemoryAccount {
 public:
  MemoryAccount();
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  int64_t current_bytes(MemoryCategory category) const;
  int64_t current_bytes() const;
  /// Highest so far of one category alone.
  int64_t peak_bytes(MemoryCategory category) const;
  /// Highest total so far, and the categories' shares at that moment.
  int64_t peak_bytes() const;
  MemoryShares peak_shares() const;

  /// The latest, unless another one has succeeded since: whoever got the exception went on then.
  std::optional<FailedAllocation> failed_allocation() const;

  class Book;

 private:
  std::shared_ptr<Book> book_;
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

}  // namespace cleave
