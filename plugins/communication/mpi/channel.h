// One communicator's MPI communicator, and requests that complete in the order of their start.
// Everything here that calls MPI runs under the runtime's lock.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace cleave::mpi {

/// Throws RuntimeError with MPI's text unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

struct Settings {
  int64_t segment_bytes;      // large operations move and reduce this much at a time
  int64_t max_message_bytes;  // what one MPI call may carry (its counts are ints)
};

struct Channel {
  MPI_Comm comm;
  int rank;
  int size;
  int max_tag;
  Settings settings;
  std::atomic<bool> aborted{false};  // set by any thread
  int heavy_running = 0;             // large operations that hold scratch memory

  /// Collectives use odd tags, one for each open operation, sends and receives even ones.
  int next_collective_tag();
  int transfer_tag(int tag) const;

 private:
  int64_t num_collectives_ = 0;
};

/// Up to `capacity` requests, tested oldest first: one test, and so one round of MPI's own
/// progress, for each that is not done yet.
class Window {
 public:
  explicit Window(int capacity) : entries_(static_cast<size_t>(capacity)) {}

  bool full() const { return started_ - finished_ == entries_.size(); }
  bool empty() const { return started_ == finished_; }
  void send(const Channel& channel, const void* data, int64_t bytes, int peer, int tag);
  void receive(const Channel& channel, void* data, int64_t bytes, int peer, int tag);
  /// True when the oldest request was done; it is then forgotten. Throws when it failed or the
  /// message had another size than expected.
  bool pop();
  /// The rank that the oldest request waits for.
  int peer() const { return entries_[finished_ % entries_.size()].peer; }

  /// After a failure: takes back what has not met its message yet.
  void cancel() noexcept;
  /// Whether MPI has let go of all buffers.
  bool drained() noexcept;

 private:
  struct Entry {
    MPI_Request request;
    int64_t receive_bytes;  // -1: a send
    int peer;
  };
  Entry& add(int64_t receive_bytes, int peer);

  std::vector<Entry> entries_;
  uint64_t started_ = 0;
  uint64_t finished_ = 0;
};

}  // namespace cleave::mpi
