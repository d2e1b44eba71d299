// The part of CUDA's runtime that the mpi plugin loads, on host memory that only copies may touch.
// A copy happens when its stream's event is asked for the second time, so it is late for whoever
// does not wait.
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalid = 1;
constexpr int kNotReady = 600;

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

struct Stream {
  std::deque<Copy> copies;
};

struct Event {
  Stream* stream = nullptr;
  int looks = 0;
};

struct Fake {
  std::mutex mutex;
  std::map<char*, size_t> memory;  // of the GPU
  Stream default_stream;

  char* owner(const void* address) {
    auto next = memory.upper_bound(const_cast<char*>(static_cast<const char*>(address)));
    if (next == memory.begin()) return nullptr;
    --next;
    return static_cast<const char*>(address) < next->first + next->second ? next->first : nullptr;
  }
  void protect(const void* address, int protection) {
    if (char* block = owner(address)) mprotect(block, memory[block], protection);
  }
  void run(Stream& stream) {
    for (const Copy& copy : stream.copies) {
      protect(copy.to, PROT_READ | PROT_WRITE);
      protect(copy.from, PROT_READ | PROT_WRITE);
      std::memcpy(copy.to, copy.from, copy.bytes);
      protect(copy.to, PROT_NONE);
      protect(copy.from, PROT_NONE);
    }
    stream.copies.clear();
  }
};

Fake& fake() {
  static Fake instance;
  return instance;
}

}  // namespace

extern "C" {

int cudaGetDeviceCount(int* count) {
  *count = 1;
  return kSuccess;
}
int cudaGetDevice(int* device) {
  *device = 0;
  return kSuccess;
}
int cudaSetDevice(int device) {
  return device == 0 ? kSuccess : kInvalid;
}
const char* cudaGetErrorString(int status) {
  return status == kInvalid ? "invalid argument" : "no error";
}

int cudaMalloc(void** memory, size_t bytes) {
  const std::lock_guard lock(fake().mutex);
  const size_t rounded = (bytes + 4095) / 4096 * 4096;
  void* block = mmap(nullptr, rounded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return kInvalid;
  fake().memory[static_cast<char*>(block)] = rounded;
  *memory = block;
  return kSuccess;
}
int cudaFree(void* memory) {
  const std::lock_guard lock(fake().mutex);
  const auto block = fake().memory.find(static_cast<char*>(memory));
  if (block == fake().memory.end()) return kInvalid;
  munmap(memory, block->second);
  fake().memory.erase(block);
  return kSuccess;
}
int cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = std::malloc(bytes);
  return kSuccess;
}

int cudaStreamCreateWithFlags(void** stream, unsigned) {
  *stream = new Stream;
  return kSuccess;
}
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  const std::lock_guard lock(fake().mutex);
  const bool to_gpu = fake().owner(to) != nullptr;
  const bool from_gpu = fake().owner(from) != nullptr;
  if ((kind == 1) != to_gpu || (kind == 2) != from_gpu) return kInvalid;
  (stream ? static_cast<Stream*>(stream) : &fake().default_stream)
      ->copies.push_back({to, from, bytes});
  return kSuccess;
}
int cudaEventCreateWithFlags(void** event, unsigned) {
  *event = new Event;
  return kSuccess;
}
int cudaEventRecord(void* event, void* stream) {
  const std::lock_guard lock(fake().mutex);
  *static_cast<Event*>(event) = {stream ? static_cast<Stream*>(stream) : &fake().default_stream, 0};
  return kSuccess;
}
int cudaEventQuery(void* event) {
  const std::lock_guard lock(fake().mutex);
  auto* asked = static_cast<Event*>(event);
  if (++asked->looks < 2) return kNotReady;
  fake().run(*asked->stream);
  return kSuccess;
}
}
