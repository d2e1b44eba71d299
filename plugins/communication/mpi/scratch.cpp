#include "scratch.h"

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
  auto block = free_.end();
  for (auto candidate = free_.begin(); candidate != free_.end(); ++candidate) {
    // a much larger one will be asked for again, and would then be allocated a second time
    const bool fits = candidate->bytes >= bytes && candidate->bytes / 2 <= bytes;
    if (fits && (block == free_.end() || candidate->bytes < block->bytes)) block = candidate;
  }
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
