#include "scratch.h"

#include <algorithm>
#include <utility>

namespace cleave::mpi {

Scratch::Scratch(Scratch&& other) noexcept
    : memory_(std::move(other.memory_)), bytes_(other.bytes_), pool_(other.pool_) {}

Scratch& Scratch::operator=(Scratch&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(pool_, other.pool_);
  return *this;
}

Scratch::~Scratch() {
  if (memory_) pool_->free_.push_back({std::move(memory_), bytes_});
}

Scratch ScratchPool::take(int64_t bytes) {
  Scratch scratch;
  scratch.pool_ = this;
  const auto block = std::find_if(free_.begin(), free_.end(),
                                  [&](const Block& candidate) { return candidate.bytes >= bytes; });
  if (block != free_.end()) {
    scratch.memory_ = std::move(block->memory);
    scratch.bytes_ = block->bytes;
    free_.erase(block);
  } else {
    scratch.memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
    scratch.bytes_ = bytes;
  }
  return scratch;
}

}  // namespace cleave::mpi
