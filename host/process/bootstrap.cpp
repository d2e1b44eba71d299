#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "process.h"
#include "tcp_store.h"

namespace cleave {
namespace {

/// Copies what fits and reports the full size, as cleave_bootstrap.get promises.
void copy_value(const std::string& found, void* value, uint64_t capacity, uint64_t* bytes) {
  *bytes = found.size();
  found.copy(static_cast<char*>(value), capacity);
}

class ThreadStore {
 public:
  void set(const std::string& key, std::string value) {
    {
      std::lock_guard lock(mutex_);
      values_[key] = std::move(value);
    }
    changed_.notify_all();
  }

  cleave_status get(const std::string& key, void* value, uint64_t capacity, uint64_t* bytes,
                    std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return values_.count(key) > 0; })) {
      return CLEAVE_TIMED_OUT;
    }
    copy_value(values_.at(key), value, capacity, bytes);
    return CLEAVE_OK;
  }

  void remove(const std::string& key) {
    std::lock_guard lock(mutex_);
    values_.erase(key);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// Common to both: the C table calls back into set and get, and nothing is thrown across it.
template <typename Derived>
class BootstrapBase : public Bootstrap {
 public:
  const cleave_bootstrap& table() const override { return table_; }
  std::string error() const override {
    std::lock_guard lock(error_mutex_);
    return error_;
  }

 protected:
  BootstrapBase(const ProcessInfo& process, bool threads) {
    table_ = {sizeof(cleave_bootstrap),
              process.rank,
              process.world_size,
              process.local_rank,
              process.local_size,
              threads ? 1 : 0,
              this,
              &on_set,
              &on_get,
              0};
  }

 private:
  template <typename Call>
  static int32_t guarded(void* context, const char* key, Call call) {
    auto* self = static_cast<BootstrapBase*>(context);
    try {
      const cleave_status status = call(static_cast<Derived&>(*self));
      self->set_error(status == CLEAVE_OK
                          ? ""
                          : std::string("bootstrap: no rank has set \"") + key + "\" in time");
      return status;
    } catch (const std::exception& error) {
      self->set_error(error.what());
    } catch (...) {
      self->set_error("bootstrap: unknown exception");
    }
    return CLEAVE_FAILED;
  }
  static int32_t on_set(void* context, const char* key, const void* value, uint64_t bytes) {
    return guarded(context, key, [&](Derived& self) {
      self.set(key, std::string(static_cast<const char*>(value), bytes));
      return CLEAVE_OK;
    });
  }
  static int32_t on_get(void* context, const char* key, void* value, uint64_t capacity,
                        uint64_t* bytes, int64_t timeout_ms) {
    return guarded(context, key, [&](Derived& self) {
      constexpr int64_t kDayMs = 86'400'000;  // deadlines don't overflow
      const std::chrono::milliseconds timeout(std::clamp<int64_t>(timeout_ms, 0, kDayMs));
      return self.get(key, value, capacity, bytes, timeout);
    });
  }
  void set_error(const std::string& text) {
    std::lock_guard lock(error_mutex_);
    error_ = text;
  }

  cleave_bootstrap table_;
  mutable std::mutex error_mutex_;
  std::string error_;
};

class ThreadBootstrap final : public BootstrapBase<ThreadBootstrap> {
 public:
  ThreadBootstrap(const ProcessInfo& process, bool threads, std::shared_ptr<ThreadStore> store)
      : BootstrapBase(process, threads), store_(std::move(store)) {}

  void set(const char* key, std::string value) { store_->set(key, std::move(value)); }
  cleave_status get(const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                    std::chrono::milliseconds timeout) {
    return store_->get(key, value, capacity, bytes, timeout);
  }
  void remove(const std::string& key) const override { store_->remove(key); }

 private:
  std::shared_ptr<ThreadStore> store_;
};

class ProcessBootstrap final : public BootstrapBase<ProcessBootstrap> {
 public:
  ProcessBootstrap(const ProcessInfo& process, Environment environment)
      : BootstrapBase(process, false), rank_(process.rank), environment_(std::move(environment)) {}

  void set(const char* key, const std::string& value) {
    store(TcpStore::kConnectTimeout).set(key, value);
  }
  cleave_status get(const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                    std::chrono::milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    // who asks without waiting needs the store all the same
    TcpStore& opened = store(timeout.count() > 0 ? std::min(timeout, TcpStore::kConnectTimeout)
                                                 : TcpStore::kConnectTimeout);
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto found = opened.get(key, left);
    if (!found) return CLEAVE_TIMED_OUT;
    copy_value(*found, value, capacity, bytes);
    return CLEAVE_OK;
  }
  void remove(const std::string& key) const override {
    store(TcpStore::kConnectTimeout).remove(key);
  }

 private:
  TcpStore& store(std::chrono::milliseconds timeout) const {
    std::lock_guard lock(mutex_);
    if (!store_) {
      store_ = std::make_unique<TcpStore>(find_store_address(environment_), rank_ == 0, timeout);
    }
    return *store_;
  }

  int rank_;
  Environment environment_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<TcpStore> store_;  // opened when first used
};

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> make_thread_bootstraps(int world_size) {
  auto store = std::make_shared<ThreadStore>();
  std::vector<std::unique_ptr<Bootstrap>> bootstraps;
  for (int rank = 0; rank < world_size; ++rank) {
    bootstraps.push_back(std::make_unique<ThreadBootstrap>(
        ProcessInfo{rank, world_size, rank, world_size, ""}, true, store));
  }
  return bootstraps;
}

std::unique_ptr<Bootstrap> make_process_bootstrap(const ProcessInfo& process,
                                                  Environment environment) {
  if (process.world_size == 1) {
    return std::make_unique<ThreadBootstrap>(process, false, std::make_shared<ThreadStore>());
  }
  return std::make_unique<ProcessBootstrap>(process, std::move(environment));
}

}  // namespace cleave
