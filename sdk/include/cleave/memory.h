// What a tensor's bytes are booked as. The host keeps the account; whoever allocates says for what.
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <memory>

namespace cleave {

enum class MemoryCategory {
  parameters,
  master,
  gradients,
  optimizer,
  activations,
  communication,
  other,
  count
};

const char* to_string(MemoryCategory category);

/// What the host installs on a rank's threads to hear of allocations.
class MemoryBook : public c10::MemoryReportingInfoBase,
                   public std::enable_shared_from_this<MemoryBook> {
 public:
  /// Returns the category until now.
  virtual MemoryCategory exchange_category(MemoryCategory category) = 0;
};

/// Allocations of this thread's rank count as `category` while this lives (those on autograd's
/// device threads too); scopes nest. Nothing happens on a thread without an account.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  std::shared_ptr<MemoryBook> book_;
  MemoryCategory previous_;
};

}  // namespace cleave
