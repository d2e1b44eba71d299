#include "cleave/memory.h"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <iterator>

namespace cleave {

const char* to_string(MemoryCategory category) {
  constexpr const char* kNames[] = {"parameters",  "master",        "gradients", "optimizer",
                                    "activations", "communication", "other"};
  static_assert(std::size(kNames) == static_cast<size_t>(MemoryCategory::count));
  return kNames[static_cast<size_t>(category)];
}

MemoryScope::MemoryScope(MemoryCategory category) : previous_(category) {
  auto* info = c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE);
  if (auto* book = dynamic_cast<MemoryBook*>(info)) {
    book_ = book->shared_from_this();
    previous_ = book_->exchange_category(category);
  }
}

MemoryScope::~MemoryScope() {
  if (book_) book_->exchange_category(previous_);
}

}  // namespace cleave
