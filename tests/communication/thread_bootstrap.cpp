#include "thread_bootstrap.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace cleave::testing {

void KeyValueStore::set(const std::string& key, const void* value, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  values_[key].assign(static_cast<const char*>(value), bytes);
  changed_.notify_all();
}

int32_t KeyValueStore::get(const std::string& key, void* value, uint64_t capacity, uint64_t* bytes,
                           int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                         [&] { return values_.count(key) > 0; }))
    return CLEAVE_TIMED_OUT;
  const std::string& found = values_[key];
  std::memcpy(value, found.data(), std::min<uint64_t>(capacity, found.size()));
  *bytes = found.size();
  return CLEAVE_OK;
}

cleave_bootstrap thread_bootstrap(KeyValueStore& store, int rank, int size) {
  cleave_bootstrap bootstrap{};
  bootstrap.struct_size = sizeof bootstrap;
  bootstrap.rank = bootstrap.local_rank = rank;
  bootstrap.world_size = bootstrap.local_size = size;
  bootstrap.threads = 1;
  bootstrap.context = &store;
  bootstrap.set = [](void* context, const char* key, const void* value, uint64_t bytes) -> int32_t {
    static_cast<KeyValueStore*>(context)->set(key, value, bytes);
    return CLEAVE_OK;
  };
  bootstrap.get = [](void* context, const char* key, void* value, uint64_t capacity,
                     uint64_t* bytes, int64_t timeout_ms) {
    return static_cast<KeyValueStore*>(context)->get(key, value, capacity, bytes, timeout_ms);
  };
  return bootstrap;
}

}  // namespace cleave::testing
