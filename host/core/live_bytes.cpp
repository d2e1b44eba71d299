#include "core/live_bytes.h"

namespace cleave {

void LiveBytes::see(const at::Tensor& tensor) {
  if (tensor.defined())
    seen_.try_emplace(tensor.storage().unsafeGetStorageImpl(),
                      tensor.storage().getWeakStorageImpl());
}

int64_t LiveBytes::now() {
  int64_t bytes = 0;
  std::erase_if(seen_, [&](const auto& entry) {
    const auto storage = entry.second.lock();
    if (storage) bytes += static_cast<int64_t>(storage->nbytes());
    return !storage;
  });
  return bytes;
}

}  // namespace cleave
