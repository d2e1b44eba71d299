// One operation seen from all its ranks: their calls, and the work cut into pieces that any of the
// threads may do.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "signature.h"

namespace cleave::local {

constexpr int kMaxRanks = 64;

/// Calls, status and reason are guarded by the group's mutex; pieces are claimed without it.
class Transaction {
 public:
  /// `slots`: ranks of the group, or 2 for a send (slot 0) and its receive (slot 1).
  explicit Transaction(int slots) : calls_(static_cast<size_t>(slots)) {}

  /// Returns an error text when the call does not fit the ones before it, naming both.
  std::string add(int slot, int rank, const cleave_collective& call, int group_size);
  bool all_arrived() const { return num_arrived_ == static_cast<int>(calls_.size()); }
  bool has_arrived(int slot) const { return calls_[static_cast<size_t>(slot)].arrived; }
  /// The ranks that have not called yet, for messages.
  std::string missing() const;
  /// After all arrived: cuts the operation into pieces. Returns an error text or "".
  std::string plan();

  int64_t bytes() const { return bytes_; }
  /// Does one piece; false when none is left to claim.
  bool run_piece();
  bool pieces_done() const { return done_.load(std::memory_order_acquire) == pieces_.size(); }
  bool pieces_left() const { return next_.load(std::memory_order_relaxed) < pieces_.size(); }

  cleave_status status() const {
    return static_cast<cleave_status>(status_.load(std::memory_order_acquire));
  }
  void complete() { status_.store(CLEAVE_OK, std::memory_order_release); }
  /// Stops the threads that work on pieces and returns when none touches the buffers any more.
  void fail(cleave_status status, const std::string& reason);
  const std::string& reason() const { return reason_; }

  bool abandoned = false;  // a rank released its work: the last one to arrive does everything

 private:
  struct Piece {
    const char* from;  // copy; nullptr: reduce
    char* to;
    int target;  // reduce: the slot that gets the result, -1: all
    int64_t source_offset;
    int64_t target_offset;
    int64_t bytes;
  };

  void add_copies(const void* from, int64_t from_offset, void* to, int64_t to_offset,
                  int64_t elements);
  void add_reduction(int target, int64_t source_offset, int64_t elements);
  std::string plan_all_to_all();
  void reduce(const Piece& piece) const;

  std::vector<Call> calls_;
  int num_arrived_ = 0;
  int first_arrived_ = -1;
  std::vector<Piece> pieces_;
  int64_t bytes_ = 0;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> done_{0};
  std::atomic<int> active_{0};
  std::atomic<int> status_{CLEAVE_PENDING};
  std::string reason_;
};

}  // namespace cleave::local
