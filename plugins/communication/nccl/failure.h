// Why a communicator ended: the first reason counts, all its operations share it.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "cleave/communicator.h"

namespace cleave::nccl {

class Failure {
 public:
  bool is_set() const { return status() != CLEAVE_OK; }
  cleave_status status() const { return status_.load(std::memory_order_acquire); }
  std::string text() const;
  /// Any thread; never blocks for long. Later reasons are ignored.
  void set(cleave_status status, const std::string& text) noexcept;
  /// RuntimeError with the text.
  [[noreturn]] void raise() const;

 private:
  mutable std::mutex mutex_;
  std::string text_;
  std::atomic<cleave_status> status_{CLEAVE_OK};
};

}  // namespace cleave::nccl
