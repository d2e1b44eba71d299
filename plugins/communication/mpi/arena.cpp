#include "arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

namespace cleave::mpi {
namespace {

constexpr uint64_t kAlignment = 64;

/// As much as the machine has, so that an arena is never what runs out first: pages that nobody
/// wrote to cost nothing.
uint64_t arena_bytes() {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  rlimit limit{};  // beyond it ftruncate kills
  getrlimit(RLIMIT_FSIZE, &limit);
  return std::min<uint64_t>(page * pages, limit.rlim_cur) / page * page;
}

}  // namespace

Mapping::Mapping(int file, uint64_t bytes) : bytes_(bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (data == MAP_FAILED) return;
  data_ = static_cast<std::byte*>(data);
  madvise(data, bytes, MADV_DONTDUMP);  // a rank that crashes leaves no file of this size
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_) munmap(data_, bytes_);
}

Mapping map_arena(const ArenaAddress& address) {
  if (address.bytes == 0) return {};
  const std::string path =
      "/proc/" + std::to_string(address.process) + "/fd/" + std::to_string(address.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return {};
  Mapping mapping(file, address.bytes);
  close(file);
  return mapping;
}

std::unique_ptr<Arena> Arena::create() {
  const uint64_t bytes = arena_bytes();
  const int file = memfd_create("cleave", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  if (bytes == 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    return nullptr;
  }
  Mapping mapping(file, bytes);
  if (!mapping.data()) {
    close(file);
    return nullptr;
  }
  return std::unique_ptr<Arena>(new Arena(file, bytes, std::move(mapping)));
}

Arena::Arena(int file, uint64_t bytes, Mapping mapping)
    : file_(file), bytes_(bytes), mapping_(std::move(mapping)), free_{{0, bytes}} {}

Arena::~Arena() {
  close(file_);
}

ArenaAddress Arena::address() const {
  return {getpid(), file_, bytes_};
}

void* Arena::allocate(uint64_t bytes) {
  const uint64_t rounded = (std::max<uint64_t>(bytes, 1) + kAlignment - 1) & ~(kAlignment - 1);
  const std::lock_guard lock(mutex_);
  const auto hole = std::find_if(free_.begin(), free_.end(),
                                 [&](const auto& entry) { return entry.second >= rounded; });
  if (hole == free_.end()) return nullptr;
  const auto [offset, available] = *hole;
  free_.erase(hole);
  if (available > rounded) free_[offset + rounded] = available - rounded;
  used_[offset] = rounded;
  return mapping_.data() + offset;
}

bool Arena::deallocate(void* memory) {
  const auto found = offset(memory, 1);
  if (!found) return false;
  const std::lock_guard lock(mutex_);
  const auto block = used_.find(static_cast<uint64_t>(*found));
  if (block == used_.end()) return false;
  auto [begin, bytes] = *block;
  used_.erase(block);
  auto next = free_.upper_bound(begin);
  if (next != free_.end() && next->first == begin + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == begin) {
      previous->second += bytes;
      return true;
    }
  }
  free_[begin] = bytes;
  return true;
}

std::optional<int64_t> Arena::offset(const void* memory, int64_t bytes) const {
  const auto* address = static_cast<const std::byte*>(memory);
  if (address < mapping_.data() || address + bytes > mapping_.data() + bytes_) return std::nullopt;
  return address - mapping_.data();
}

}  // namespace cleave::mpi
