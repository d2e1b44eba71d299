// Memory that the processes of one machine share. Each process has one arena, a file in memory that
// has no name and no size limit but the machine's (memfd); its neighbours map it whole, so that an
// address in it travels as an offset. Nothing is left behind when a process dies.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace cleave::mpi {

/// Bytes mapped from a file; unmapped on destruction.
class Mapping {
 public:
  Mapping() = default;
  /// Empty when it can't be mapped.
  Mapping(int file, uint64_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::byte* data() const { return data_; }
  /// Leaves it mapped: someone may still write there.
  void abandon() { data_ = nullptr; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

/// What a neighbour needs to map an arena.
struct ArenaAddress {
  int64_t process;  // as this machine numbers it
  int64_t file;
  uint64_t bytes;  // 0: there is none
};

/// Empty when it can't be mapped, e.g. because the processes are in different containers.
Mapping map_arena(const ArenaAddress& address);

/// Any thread may call.
class Arena {
 public:
  /// nullptr where this machine has no such files.
  static std::unique_ptr<Arena> create();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  ArenaAddress address() const;
  std::byte* begin() const { return mapping_.data(); }
  /// 64-byte aligned; its content is undefined; nullptr when the arena is full. What is given back
  /// stays this process's memory for the next one: steps ask for the same sizes again.
  void* allocate(uint64_t bytes);
  /// False when it isn't from here.
  bool deallocate(void* memory);
  /// Where [memory, memory + bytes) is, or nothing when it is elsewhere.
  std::optional<int64_t> offset(const void* memory, int64_t bytes) const;
  void abandon() { mapping_.abandon(); }

 private:
  Arena(int file, uint64_t bytes, Mapping mapping);

  int file_;
  uint64_t bytes_;
  Mapping mapping_;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes, never adjacent
  std::map<uint64_t, uint64_t> used_;
};

}  // namespace cleave::mpi
