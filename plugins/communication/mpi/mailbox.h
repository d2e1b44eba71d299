// What a rank shows to the ranks of its communicator on the same machine: one mailbox for each
// communicator, in the rank's arena. Only its owner writes it.
//
// Operations are numbered, and number n uses lane n modulo the number of lanes, once all ranks have
// finished the lane's last one. A counter holds (number << kStepBits) + steps done, so that it only
// ever grows.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cleave::mpi {

constexpr int kStepBits = 32;
constexpr int kCacheLine = 64;

struct alignas(kCacheLine) Counter {
  std::atomic<uint64_t> value{0};
  static_assert(std::atomic<uint64_t>::is_always_lock_free);  // works between processes
};

/// The call that a rank makes, so that the others can tell whether it is theirs too.
struct Signature {
  int32_t op = 0;
  int32_t dtype = 0;
  int32_t reduction = 0;
  int32_t root = 0;
  int64_t elements = 0;
  bool operator==(const Signature&) const = default;
};

/// Of operations that fit into it: one copy in, then everyone reads it.
struct SmallLane {
  static constexpr int64_t kBytes = 8 * 1024;
  Counter ready;  // data are there
  Counter done;   // has read the others' data
  Signature signature;
  alignas(kCacheLine) std::byte data[kBytes];
};

/// Of operations that go through in chunks, or straight from buffer to buffer.
struct LargeLane {
  static constexpr int kSlots = 2;
  static constexpr int64_t kInBytes = 256 * 1024;  // of a slot, for all ranks together
  Counter announced;
  Counter in;    // chunks that the others may read in `incoming`
  Counter out;   // chunks that this rank has reduced or copied; the others may read `results`
  Counter done;  // chunks that this rank has collected
  Signature signature;
  int64_t send = 0;  // offsets in the arena; -1: elsewhere
  int64_t recv = 0;
  alignas(kCacheLine) std::byte incoming[kSlots][kInBytes];
  std::byte results[kSlots][kInBytes];
};

struct Mailbox {
  static constexpr int kSmallLanes = 8;
  static constexpr int kLargeLanes = 8;  // two stages of each of four operations; more wait
  SmallLane small[kSmallLanes];
  LargeLane large[kLargeLanes];
};

}  // namespace cleave::mpi
