#include "failure.h"

#include "cleave/error.h"

namespace cleave::nccl {

std::string Failure::text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

void Failure::set(cleave_status status, const std::string& text) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_set()) return;
  try {
    text_ = text;
  } catch (...) {
    // the status alone must do
  }
  status_.store(status, std::memory_order_release);
}

void Failure::raise() const {
  throw RuntimeError(text());
}

}  // namespace cleave::nccl
