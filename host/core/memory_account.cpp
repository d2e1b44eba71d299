#include "memory_account.h"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "cleave/error.h"

namespace cleave {
namespace {

// c10's allocators look for a reporter under this kind and no other
constexpr auto kKind = c10::DebugInfoKind::PROFILER_STATE;

size_t index(MemoryCategory category) {
  return static_cast<size_t>(category);
}

}  // namespace

class MemoryAccount::Book final : public MemoryBook {
 public:
  /// A scope belongs to the rank rather than to a thread: backward on a device allocates on
  /// autograd's threads while the rank's main thread, which opened the scope, waits for them.
  MemoryCategory exchange_category(MemoryCategory category) override {
    return category_.exchange(category);
  }

  /// Positive sizes are allocations, negative ones frees.
  void reportMemoryUsage(void* block, int64_t bytes, size_t, size_t, c10::Device) override {
    std::lock_guard lock(mutex_);
    if (bytes > 0) {
      add(block, bytes);
    } else {
      remove(block);
    }
  }
  void reportOutOfMemory(int64_t bytes, size_t, size_t, c10::Device) override {
    std::lock_guard lock(mutex_);
    failed_ = {bytes, category_.load(), totals_.current};
  }
  bool memoryProfilingEnabled() const override { return true; }

  struct Totals {
    MemoryShares current{};
    int64_t current_total = 0;
    int64_t peak = 0;
    MemoryShares peak_shares{};
    MemoryShares category_peaks{};
  };
  Totals totals() const {
    std::lock_guard lock(mutex_);
    return totals_;
  }
  std::optional<FailedAllocation> failed_allocation() const {
    std::lock_guard lock(mutex_);
    return failed_;
  }

 private:
  struct Block {
    int64_t bytes;
    MemoryCategory category;
  };

  void add(void* address, int64_t bytes) {
    failed_.reset();
    const Block block{bytes, category_.load()};
    const auto [found, is_new] = blocks_.try_emplace(address, block);
    if (!is_new) {  // the earlier block was freed where it couldn't be seen
      book(found->second, -1);
      found->second = block;
    }
    book(block, +1);
    if (totals_.current_total > totals_.peak) {
      totals_.peak = totals_.current_total;
      totals_.peak_shares = totals_.current;
    }
  }

  void remove(void* address) {
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return;  // allocated before the account, or another rank's
    book(found->second, -1);
    blocks_.erase(found);
  }

  void book(const Block& block, int sign) {
    totals_.current[index(block.category)] += sign * block.bytes;
    totals_.current_total += sign * block.bytes;
    int64_t& peak = totals_.category_peaks[index(block.category)];
    peak = std::max(peak, totals_.current[index(block.category)]);
  }

  std::atomic<MemoryCategory> category_ = MemoryCategory::other;
  mutable std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
  Totals totals_;
  std::optional<FailedAllocation> failed_;
};

struct MemoryAccount::Guard {
  explicit Guard(std::shared_ptr<Book> book) : guard(kKind, std::move(book)) {}
  c10::DebugInfoGuard guard;
};

MemoryAccount::MemoryAccount() : book_(std::make_shared<Book>()) {
  CLEAVE_CHECK(c10::ThreadLocalDebugInfo::get(kKind) == nullptr,
               "this thread has a memory account or a profiler already; end that one first");
  guard_ = std::make_unique<Guard>(book_);
}

MemoryAccount::~MemoryAccount() = default;

int64_t MemoryAccount::current_bytes(MemoryCategory category) const {
  return book_->totals().current[index(category)];
}
int64_t MemoryAccount::current_bytes() const {
  return book_->totals().current_total;
}
int64_t MemoryAccount::peak_bytes(MemoryCategory category) const {
  return book_->totals().category_peaks[index(category)];
}
int64_t MemoryAccount::peak_bytes() const {
  return book_->totals().peak;
}
MemoryShares MemoryAccount::peak_shares() const {
  return book_->totals().peak_shares;
}

std::optional<FailedAllocation> MemoryAccount::failed_allocation() const {
  return book_->failed_allocation();
}

}  // namespace cleave
