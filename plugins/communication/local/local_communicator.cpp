// Ranks as threads of one process: shared memory without copies in between. Every reduction is
// formed in rank order 0..n-1 (16-bit floats in float32, rounded once), so all ranks get the same
// bits. Bytes per rank: an all_reduce of S bytes reads and writes S; nothing is buffered. A send
// completes when its receive has been submitted (as in MPI and NCCL for large messages).
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cleave/backend.h"
#include "cleave/error.h"
#include "cleave/plugin.h"
#include "group.h"

namespace cleave::local {
namespace {

// How long ranks wait for rank 0 to publish the shared state.
constexpr int64_t kJoinTimeoutMs = 60'000;
constexpr uint64_t kAlignment = 64;

class LocalOperation final : public Operation {
 public:
  LocalOperation(std::shared_ptr<Group> group, int rank, std::shared_ptr<Transaction> transaction,
                 Deadline deadline)
      : group_(std::move(group)),
        transaction_(std::move(transaction)),
        deadline_(deadline),
        rank_(rank) {}
  ~LocalOperation() override {
    if (transaction_->status() == CLEAVE_PENDING) group_->abandon(*transaction_);
  }

  cleave_status poll() override { return group_->poll(rank_, *transaction_, deadline_); }
  cleave_status wait_host() override { return group_->wait(rank_, *transaction_, deadline_); }
  cleave_status wait_stream(void*) override { return wait_host(); }
  std::string error() const override { return group_->reason(*transaction_); }

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<Transaction> transaction_;
  Deadline deadline_;
  int rank_;
};

class LocalBackend final : public Backend {
 public:
  LocalBackend(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)),
        rank_(rank),
        description_(message("local, ", group_->size(), " ranks as threads of one process")) {}
  ~LocalBackend() override {
    for (const auto& weak : open_)
      if (const auto transaction = weak.lock()) group_->leave(rank_, *transaction);
  }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  cleave_capabilities capabilities() const override { return cpu_capabilities(); }
  const std::string& describe() const override { return description_; }
  const char* algorithm(cleave_op op, cleave_dtype, int64_t, cleave_device) const override;
  double network_bytes(cleave_op, cleave_dtype, int64_t, cleave_device) const override { return 0; }

  std::unique_ptr<Operation> submit(const cleave_collective& collective) override;
  void group_begin() override {}  // submit never waits
  void group_end() override {}
  std::unique_ptr<Backend> split(int color, int key) override;

  void* allocate(uint64_t bytes, cleave_device) override {
    const uint64_t rounded = (std::max<uint64_t>(bytes, 1) + kAlignment - 1) & ~(kAlignment - 1);
    return std::aligned_alloc(kAlignment, rounded);
  }
  void deallocate(void* memory, uint64_t, cleave_device) override { std::free(memory); }

  void abort() noexcept override { group_->abort(); }
  void finalize() override {}  // shared memory needs no farewell

 private:
  /// Every rank's `values`, in rank order.
  std::vector<int64_t> gather(const std::vector<int64_t>& values);

  std::shared_ptr<Group> group_;
  int rank_;
  std::string description_;
  std::vector<std::weak_ptr<Transaction>> open_;
};

const char* LocalBackend::algorithm(cleave_op op, cleave_dtype, int64_t, cleave_device) const {
  if (op == CLEAVE_BARRIER) return "shared counter";
  const bool reduces = op == CLEAVE_ALL_REDUCE || op == CLEAVE_REDUCE_SCATTER;
  return reduces ? "shared memory, sum in pieces" : "shared memory, one copy";
}

std::unique_ptr<Operation> LocalBackend::submit(const cleave_collective& collective) {
  std::erase_if(open_, [](const auto& weak) {
    const auto transaction = weak.lock();
    return !transaction || transaction->status() != CLEAVE_PENDING;
  });
  const Deadline deadline{
      std::chrono::steady_clock::now() + std::chrono::milliseconds(collective.timeout_ms),
      collective.timeout_ms};
  auto transaction = group_->submit(rank_, collective);
  open_.push_back(transaction);
  return std::make_unique<LocalOperation>(group_, rank_, std::move(transaction), deadline);
}

std::vector<int64_t> LocalBackend::gather(const std::vector<int64_t>& values) {
  std::vector<int64_t> all(values.size() * static_cast<size_t>(size()));
  cleave_collective call{};
  call.struct_size = sizeof call;
  call.op = CLEAVE_ALL_GATHER;
  call.dtype = CLEAVE_INT64;
  call.send = values.data();
  call.recv = all.data();
  call.count = static_cast<int64_t>(values.size());
  const auto operation = submit(call);
  if (operation->wait_host() != CLEAVE_OK)
    throw RuntimeError(message("split: ", operation->error()));
  return all;
}

std::unique_ptr<Backend> LocalBackend::split(int color, int key) {
  const std::vector<int64_t> choices = gather({color, key});
  std::vector<int> members;
  for (int rank = 0; rank < size(); ++rank)
    if (choices[static_cast<size_t>(2 * rank)] == color) members.push_back(rank);
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return choices[static_cast<size_t>(2 * a + 1)] < choices[static_cast<size_t>(2 * b + 1)];
  });

  const bool leads = color >= 0 && members.front() == rank_;
  const auto created = leads ? Group::create(static_cast<int>(members.size())) : nullptr;
  std::vector<int64_t> addresses;
  try {
    addresses = gather({static_cast<int64_t>(reinterpret_cast<intptr_t>(created.get()))});
  } catch (...) {
    if (created) created->withdraw();
    throw;
  }
  if (color < 0) return nullptr;
  auto* child = reinterpret_cast<Group*>(
      static_cast<intptr_t>(addresses[static_cast<size_t>(members.front())]));
  const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
  return std::make_unique<LocalBackend>(child->claim(static_cast<int>(place)),
                                        static_cast<int>(place));
}

/// The ranks may create several communicators over one bootstrap: each counts its own.
std::string next_key(const cleave_bootstrap& bootstrap) {
  const std::string counter = message("local/count/", bootstrap.rank);
  int64_t number = 0;
  uint64_t bytes = 0;
  bootstrap.get(bootstrap.context, counter.c_str(), &number, sizeof number, &bytes, 0);
  ++number;
  bootstrap.set(bootstrap.context, counter.c_str(), &number, sizeof number);
  return message("local/group/", number);
}

std::unique_ptr<Backend> create(const cleave_bootstrap& bootstrap, const cleave_options*) {
  if (bootstrap.threads != 1 && bootstrap.world_size > 1)
    throw ConfigError(
        message("communication backend local: local runs ranks as threads of one process, but the ",
                bootstrap.world_size, " ranks are processes; use backend = \"mpi\""));
  if (bootstrap.world_size > kMaxRanks)
    throw ConfigError(message("communication backend local: ", bootstrap.world_size,
                              " ranks; at most ", kMaxRanks, " threads, use backend = \"mpi\""));
  if (bootstrap.world_size == 1)
    return std::make_unique<LocalBackend>(Group::create(1)->claim(0), 0);

  const std::string key = next_key(bootstrap);
  Group* group = nullptr;
  if (bootstrap.rank == 0) {
    group = Group::create(bootstrap.world_size).get();  // alive through its claims
    bootstrap.set(bootstrap.context, key.c_str(), &group, sizeof group);
  } else {
    uint64_t bytes = 0;
    const int32_t status =
        bootstrap.get(bootstrap.context, key.c_str(), &group, sizeof group, &bytes, kJoinTimeoutMs);
    if (status != CLEAVE_OK || bytes != sizeof group)
      throw RuntimeError(message("communication backend local: rank ", bootstrap.rank,
                                 " found no shared state within ", kJoinTimeoutMs,
                                 " ms; look at what rank 0 reported"));
  }
  return std::make_unique<LocalBackend>(group->claim(bootstrap.rank), bootstrap.rank);
}

int32_t create_communicator(const cleave_bootstrap* bootstrap, const cleave_options* options,
                            cleave_communicator** out, char* error, uint64_t capacity) {
  return create_with_status(&create, bootstrap, options, out, error, capacity);
}

constexpr cleave_plugin kDescriptor = {
    make_identity(CLEAVE_COMMUNICATION, "local", "0.1.0", this_abi()),
    0,
    nullptr,
    &create_communicator,
    [](cleave_capabilities* capabilities) { *capabilities = cpu_capabilities(); },
    nullptr};

}  // namespace
}  // namespace cleave::local

CLEAVE_EXPORT_PLUGIN(cleave::local::kDescriptor)
