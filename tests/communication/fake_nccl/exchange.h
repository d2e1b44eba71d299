// How the fake's ranks meet: one Exchange for each communicator, an operation for each call.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fake.h"

namespace cleave::fake {

enum class Kind { all_reduce, reduce, reduce_scatter, all_gather, broadcast, send, recv };

struct Operation {
  Kind kind;
  const void* send;
  void* recv;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int peer;  // root, source or destination
};

size_t bytes_of(ncclDataType_t type);

/// Of one communicator, shared by its ranks.
class Exchange {
 public:
  explicit Exchange(int size)
      : size_(size), aborted_(static_cast<size_t>(size)), sequence_(static_cast<size_t>(size)) {}

  int size() const { return size_; }
  /// Runs the operations of one group, on the rank's stream; returns early when the rank aborts.
  void run(int rank, const std::vector<Operation>& group);
  void abort(int rank);

 private:
  struct Arrival {
    Operation operation;
    bool is_there = false;
  };
  struct Meeting {
    std::vector<Arrival> arrivals;
    int left = 0;
    bool is_done = false;
  };
  struct Message {
    const Operation* operation;
    bool is_taken = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  /// Waits for it, or for the abort: then false.
  template <typename Condition>
  bool wait(Lock& lock, int rank, const Condition& condition);
  void meet(Lock& lock, int rank, const Operation& operation);
  void receive(Lock& lock, int rank, const Operation& operation);

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<char> aborted_;
  std::vector<int64_t> sequence_;
  std::map<int64_t, Meeting> meetings_;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> messages_;  // by from, to
};

}  // namespace cleave::fake
