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
  int64_t now();

 private:
  // weak: a storage's address is not used again while it stands here
  std::unordered_map<c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> seen_;
};

}  // namespace cleave
