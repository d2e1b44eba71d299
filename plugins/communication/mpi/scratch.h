// Scratch memory that operations hand on to the next one instead of freeing it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cleave::mpi {

class ScratchPool;

/// Returned to the pool on destruction.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&& other) noexcept;
  ~Scratch();
  std::byte* data() const { return memory_.get(); }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  friend class ScratchPool;
  std::unique_ptr<std::byte[]> memory_;
  int64_t bytes_ = 0;
  ScratchPool* pool_ = nullptr;
};

/// Guarded by the runtime's lock; outlives its scratches.
class ScratchPool {
 public:
  /// Uninitialised memory of at least `bytes`: the smallest free block from there to twice as much.
  Scratch take(int64_t bytes);

 private:
  friend class Scratch;
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    int64_t bytes;
  };
  std::vector<Block> free_;
};

}  // namespace cleave::mpi
