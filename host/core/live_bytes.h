// Bytes that are alive in a dry run on tensors without content.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>

namespace cleave {

/// Counts by storage: one that several tensors share counts once, until the last of them is gone.
/// Nobody reports tensors without content, so whoever makes or is handed one says so here.
class LiveBytes {
 public:
  void see(const at::Tensor& tensor);
  /// An operation holds `temporary_bytes` beside what is alive. True if that is the most so far.
  bool mark(int64_t temporary_bytes);
  int64_t now();
  int64_t peak() const { return peak_; }

 private:
  // weak: a storage's address is not used again while it stands here
  std::unordered_map<c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> seen_;
  int64_t peak_ = 0;
};

}  // namespace cleave
