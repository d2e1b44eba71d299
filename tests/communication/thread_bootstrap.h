// A bootstrap for ranks that are threads of this process.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "cleave/communicator.h"

namespace cleave::testing {

class KeyValueStore {
 public:
  void set(const std::string& key, const void* value, uint64_t bytes);
  int32_t get(const std::string& key, void* value, uint64_t capacity, uint64_t* bytes,
              int64_t timeout_ms);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// `store` outlives the bootstrap.
cleave_bootstrap thread_bootstrap(KeyValueStore& store, int rank, int size);

}  // namespace cleave::testing
