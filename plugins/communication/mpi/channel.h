// One communicator's MPI communicator, and requests that complete in the order of their start.
// Everything here that calls MPI runs under the runtime's lock.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/communicator.h"
#include "scratch.h"

namespace cleave::mpi {

/// Throws RuntimeError with MPI's text unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

/// The numbers that its ranks have in MPI_COMM_WORLD.
std::vector<int> find_world_ranks(MPI_Comm comm, int size);

struct Settings {
  int64_t segment_bytes;      // large operations move and reduce this much at a time
  int64_t max_message_bytes;  // what one MPI call may carry (its counts are ints)
  bool packs;                 // floats on their way to other machines
};

struct Channel {
  MPI_Comm comm;
  int rank;
  int size;
  int max_tag;
  Settings settings;
  std::vector<int> world_ranks;      // find_world_ranks
  ScratchPool* scratch = nullptr;    // outlives all operations
  std::vector<bool> packs_to;        // each rank: whether messages to and from it may be packed
  std::atomic<bool> aborted{false};  // set by any thread
  int heavy_running = 0;             // large operations that hold scratch memory

  /// Collectives use odd tags, one for each open operation, sends and receives even ones.
  int next_collective_tag();
  int transfer_tag(int tag) const;

 private:
  int64_t num_collectives_ = 0;
};

/// Up to `capacity` requests, tested oldest first: one test, and so one round of MPI's own
/// progress, for each that is not done yet. Floats may travel packed (packing.h): segments of large
/// operations, which bounds the scratch memory.
class Window {
 public:
  explicit Window(int capacity) : entries_(static_cast<size_t>(capacity)) {}

  bool full() const { return started_ - finished_ == entries_.size(); }
  bool empty() const { return started_ == finished_; }
  /// `dtype`: of a segment that may be packed; the receiver must say the same.
  void send(const Channel& channel, const void* data, int64_t bytes, int peer, int tag,
            cleave_dtype dtype = CLEAVE_UINT8);
  void receive(const Channel& channel, void* data, int64_t bytes, int peer, int tag,
               cleave_dtype dtype = CLEAVE_UINT8);
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
    cleave_dtype dtype = CLEAVE_UINT8;
    void* target = nullptr;  // of what is received packed
    Scratch packed = {};
  };
  Entry& add(int64_t receive_bytes, int peer);
  static void settle(Entry& entry, const MPI_Status& status);

  std::vector<Entry> entries_;
  uint64_t started_ = 0;
  uint64_t finished_ = 0;
};

}  // namespace cleave::mpi
