// What the ranks of one local communicator share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "transaction.h"

namespace cleave::local {

struct Deadline {
  std::chrono::steady_clock::time_point at;
  int64_t timeout_ms;  // 0: no limit
  bool passed() const { return timeout_ms > 0 && std::chrono::steady_clock::now() >= at; }
};

/// Nothing runs in the background: whoever waits or polls does a share of the work, so an operation
/// is done as soon as all ranks have submitted it and one of them waits.
class Group {
 public:
  /// Lives until every rank has claimed its reference and dropped it.
  static std::shared_ptr<Group> create(int size);
  std::shared_ptr<Group> claim(int rank);
  /// Gives up the references that nobody will claim.
  void withdraw();

  int size() const { return static_cast<int>(sequence_.size()); }
  std::shared_ptr<Transaction> submit(int rank, const cleave_collective& call);
  cleave_status poll(int rank, Transaction& transaction, const Deadline& deadline);
  cleave_status wait(int rank, Transaction& transaction, const Deadline& deadline);
  std::string reason(const Transaction& transaction);
  /// The caller will not ask again; the operation still completes.
  void abandon(Transaction& transaction);
  /// Every open operation that is not done ends as aborted, on all ranks.
  void abort();
  /// `rank` is going away: its buffers must not be used any more.
  void leave(int rank, Transaction& transaction);

 private:
  explicit Group(int size) : claims_(static_cast<size_t>(size)), sequence_(claims_.size()) {}

  using Channel = std::tuple<int, int, int>;  // source, destination, tag
  std::shared_ptr<Transaction> join(int rank, const cleave_collective& call);
  std::shared_ptr<Transaction> join_transfer(int rank, const cleave_collective& call);
  void settle(int rank, Transaction& transaction, const Deadline& deadline);
  void run(Transaction& transaction);
  void finish(Transaction& transaction, cleave_status status, const std::string& reason);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool aborted_ = false;
  std::vector<std::shared_ptr<Group>> claims_;
  std::vector<int64_t> sequence_;  // collectives that each rank has submitted
  std::map<int64_t, std::shared_ptr<Transaction>> collectives_;
  std::map<Channel, std::deque<std::shared_ptr<Transaction>>> transfers_;
};

}  // namespace cleave::local
