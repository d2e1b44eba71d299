#include "store_communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cleave/backend.h"
#include "cleave/error.h"
#include "cleave/reduce.h"

namespace cleave {
namespace {

using Clock = std::chrono::steady_clock;

// Between two looks at whether the communicator was aborted.
constexpr int64_t kSliceMs = 100;
constexpr int64_t kFarewellMs = 60'000;
constexpr uint64_t kFirstCapacity = 4096;

class Finished final : public Operation {
 public:
  explicit Finished(cleave_status status, std::string error)
      : status_(status), error_(std::move(error)) {}
  cleave_status poll() override { return status_; }
  cleave_status wait_host() override { return status_; }
  cleave_status wait_stream(void*) override { return status_; }
  std::string error() const override { return error_; }

 private:
  cleave_status status_;
  std::string error_;
};

/// How an operation ended early.
struct Ended {
  cleave_status status;
  std::string text;
};

class StoreBackend final : public Backend {
 public:
  StoreBackend(const Bootstrap& bootstrap, const std::string& name)
      : bootstrap_(bootstrap), table_(bootstrap.table()), prefix_("control/" + name + "/") {}

  int rank() const override { return table_.rank; }
  int size() const override { return table_.world_size; }
  cleave_capabilities capabilities() const override;
  const std::string& describe() const override { return description_; }
  const char* algorithm(cleave_op, cleave_dtype, int64_t, cleave_device) const override {
    return "through rank 0";
  }

  std::unique_ptr<Operation> submit(const cleave_collective& call) override;
  void group_begin() override {}
  void group_end() override {}
  std::unique_ptr<Backend> split(int, int) override {
    throw RuntimeError(description_ + " can't be split");
  }
  void* allocate(uint64_t, cleave_device) override {
    throw RuntimeError(description_ + " has no memory of its own");
  }
  void deallocate(void*, uint64_t, cleave_device) override {}

  void abort() noexcept override;
  void finalize() override;

 private:
  /// Every rank's `mine`, by rank.
  std::vector<std::string> exchange(const std::string& mine, const cleave_collective& call);
  void perform(const cleave_collective& call);
  std::string key(const std::string& last) const {
    return prefix_ + std::to_string(number_) + "/" + last;
  }
  std::string await(const std::string& key, int from, const cleave_collective& call,
                    Clock::time_point deadline);
  std::string take(int from, const cleave_collective& call, Clock::time_point deadline);
  void set(const std::string& key, const std::string& value);
  bool is_aborted() const;

  const Bootstrap& bootstrap_;
  const cleave_bootstrap& table_;
  const std::string prefix_;
  const std::string description_ = "the host's key-value store";
  int64_t number_ = 0;
  std::atomic<bool> aborted_ = false;
};

cleave_capabilities StoreBackend::capabilities() const {
  cleave_capabilities capabilities = cpu_capabilities();
  for (const cleave_op op : {CLEAVE_REDUCE_SCATTER, CLEAVE_ALL_TO_ALL, CLEAVE_SEND, CLEAVE_RECV})
    capabilities.dtypes[CLEAVE_CPU][op] = 0;
  return capabilities;
}

std::unique_ptr<Operation> StoreBackend::submit(const cleave_collective& call) {
  try {
    perform(call);
    return std::make_unique<Finished>(CLEAVE_OK, "");
  } catch (const Ended& ended) {
    return std::make_unique<Finished>(ended.status, ended.text);
  }
}

void StoreBackend::set(const std::string& key, const std::string& value) {
  if (table_.set(table_.context, key.c_str(), value.data(), value.size()) != CLEAVE_OK)
    throw Ended{CLEAVE_FAILED, bootstrap_.error()};
}

bool StoreBackend::is_aborted() const {
  if (aborted_) return true;
  if (!table_.threads) return false;
  char value;
  uint64_t bytes = 0;
  const std::string key = prefix_ + "aborted";
  return table_.get(table_.context, key.c_str(), &value, sizeof value, &bytes, 0) == CLEAVE_OK;
}

std::string StoreBackend::await(const std::string& key, int from, const cleave_collective& call,
                                Clock::time_point deadline) {
  std::string value(kFirstCapacity, '\0');
  for (;;) {
    if (is_aborted()) throw Ended{CLEAVE_ABORTED, "the communicator was aborted"};
    int64_t slice = kSliceMs;
    if (call.timeout_ms > 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0)
        throw Ended{CLEAVE_TIMED_OUT, message("rank ", from, " did not come within ",
                                              call.timeout_ms, " ms; look at what it reported")};
      slice = std::min<int64_t>(slice, left.count());
    }
    uint64_t bytes = 0;
    const int32_t status =
        table_.get(table_.context, key.c_str(), value.data(), value.size(), &bytes, slice);
    if (status == CLEAVE_TIMED_OUT) continue;
    if (status != CLEAVE_OK) throw Ended{CLEAVE_FAILED, bootstrap_.error()};
    const bool fits = bytes <= value.size();
    value.resize(bytes);
    if (fits) return value;
  }
}

// What a rank says in this operation, by rank 0, which alone reads it.
std::string StoreBackend::take(int from, const cleave_collective& call,
                               Clock::time_point deadline) {
  const std::string name = key(std::to_string(from));
  std::string text = await(name, from, call, deadline);
  bootstrap_.remove(name);
  return text;
}

// Rank 0 collects and tells all. When it has heard from every rank, all are past the operation
// before, whose keys go; so the store never holds more than two operations.
std::vector<std::string> StoreBackend::exchange(const std::string& mine,
                                                const cleave_collective& call) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(call.timeout_ms);
  const std::string last = key("all");
  ++number_;
  std::string all;
  if (rank() == 0) {
    for (int from = 0; from < size(); ++from) {
      const std::string text = from == 0 ? mine : take(from, call, deadline);
      const auto length = static_cast<uint64_t>(text.size());
      all.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
    }
    if (size() > 1) set(key("all"), all);
    if (number_ > 1) bootstrap_.remove(last);
  } else {
    set(key(std::to_string(rank())), mine);
    all = await(key("all"), 0, call, deadline);
  }
  std::vector<std::string> texts;
  for (size_t at = 0; at + sizeof(uint64_t) <= all.size();) {
    uint64_t length;
    std::memcpy(&length, all.data() + at, sizeof length);
    texts.push_back(all.substr(at + sizeof length, length));
    at += sizeof length + length;
  }
  if (static_cast<int>(texts.size()) != size())
    throw Ended{CLEAVE_FAILED,
                message("rank 0 sent ", texts.size(), " texts for ", size(), " ranks")};
  return texts;
}

void StoreBackend::perform(const cleave_collective& call) {
  const int64_t element = dtype_bytes(call.dtype);
  const bool reduces = call.op == CLEAVE_ALL_REDUCE;
  int64_t count = call.op == CLEAVE_BARRIER ? 0 : call.count;
  const void* source = call.send;
  if (call.op == CLEAVE_ALL_GATHER && call.recv_counts) count = call.recv_counts[rank()];
  if (call.op == CLEAVE_BROADCAST) {
    source = call.recv;
    if (call.peer != rank()) count = 0;
  }
  std::string mine;
  if (count > 0)
    mine.assign(static_cast<const char*>(source), static_cast<size_t>(count * element));
  const std::vector<std::string> texts = exchange(mine, call);
  auto* target = static_cast<char*>(call.recv);
  if (call.op == CLEAVE_BROADCAST) {
    texts[static_cast<size_t>(call.peer)].copy(target, std::string::npos);
  } else if (call.op == CLEAVE_ALL_GATHER) {
    for (const std::string& text : texts) target += text.copy(target, std::string::npos);
  } else if (reduces && count > 0) {
    std::vector<const void*> sources;
    for (const std::string& text : texts) {
      if (text.size() != mine.size())
        throw Ended{CLEAVE_FAILED,
                    message("all_reduce of ", mine.size(), " bytes meets one of ", text.size())};
      sources.push_back(text.data());
    }
    void* const targets[] = {call.recv};
    reduce_buffers(static_cast<cleave_dtype>(call.dtype),
                   static_cast<cleave_reduction>(call.reduction), sources.data(), size(), targets,
                   1, count);
  }
}

// Rank 0 leaves last: where it serves the store, the store goes with it, and the others may still
// wait there for the last answer.
void StoreBackend::finalize() {
  cleave_collective farewell{};
  farewell.timeout_ms = kFarewellMs;
  const auto deadline = Clock::now() + std::chrono::milliseconds(kFarewellMs);
  ++number_;
  try {
    if (rank() != 0) return set(key(std::to_string(rank())), "");
    for (int from = 1; from < size(); ++from) take(from, farewell, deadline);
  } catch (const Ended& ended) {
    throw RuntimeError(ended.text);
  }
}

void StoreBackend::abort() noexcept {
  aborted_ = true;
  if (!table_.threads) return;  // a store elsewhere may take long to answer
  try {
    set(prefix_ + "aborted", "1");
  } catch (...) {
    // this rank's own waiters are free all the same
  }
}

}  // namespace

cleave_communicator* make_store_communicator(const Bootstrap& bootstrap, const std::string& name) {
  return to_c(std::make_unique<StoreBackend>(bootstrap, name));
}

}  // namespace cleave
