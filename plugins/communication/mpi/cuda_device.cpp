#include <dlfcn.h>

#include <map>
#include <type_traits>
#include <vector>

#include "cleave/error.h"
#include "device.h"

namespace cleave::mpi {
namespace {

// The runtime's own numbers (cuda_runtime_api.h); the header is not needed for more.
constexpr int kSuccess = 0;
constexpr int kNotReady = 600;
constexpr unsigned kNonBlocking = 1;  // cudaStreamNonBlocking
constexpr unsigned kNoTiming = 2;     // cudaEventDisableTiming
constexpr unsigned kPortable = 1;     // cudaHostAllocPortable
constexpr int kHostToDevice = 1;
constexpr int kDeviceToHost = 2;

void* open_library() {
  for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so"})
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

/// The functions of the runtime that are in use.
struct Cuda {
  int (*GetDeviceCount)(int*);
  int (*GetDevice)(int*);
  int (*SetDevice)(int);
  const char* (*GetErrorString)(int);
  int (*Malloc)(void**, size_t);
  int (*Free)(void*);
  int (*HostAlloc)(void**, size_t, unsigned);
  int (*StreamCreateWithFlags)(void**, unsigned);
  int (*MemcpyAsync)(void*, const void*, size_t, int, void*);
  int (*EventCreateWithFlags)(void**, unsigned);
  int (*EventRecord)(void*, void*);
  int (*EventQuery)(void*);

  /// False when the library lacks one.
  bool load(void* library) {
    bool all = true;
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      all &= function != nullptr;
    };
    find(GetDeviceCount, "cudaGetDeviceCount");
    find(GetDevice, "cudaGetDevice");
    find(SetDevice, "cudaSetDevice");
    find(GetErrorString, "cudaGetErrorString");
    find(Malloc, "cudaMalloc");
    find(Free, "cudaFree");
    find(HostAlloc, "cudaHostAlloc");
    find(StreamCreateWithFlags, "cudaStreamCreateWithFlags");
    find(MemcpyAsync, "cudaMemcpyAsync");
    find(EventCreateWithFlags, "cudaEventCreateWithFlags");
    find(EventRecord, "cudaEventRecord");
    find(EventQuery, "cudaEventQuery");
    return all;
  }
};

bool find_cuda(Cuda& cuda) {
  void* library = open_library();
  int gpus = 0;
  return library && cuda.load(library) && cuda.GetDeviceCount(&gpus) == kSuccess && gpus > 0;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const Cuda& cuda) : cuda_(cuda) {}

  void* allocate(uint64_t bytes) override {
    void* memory = nullptr;
    check(cuda_.Malloc(&memory, bytes), "cudaMalloc");
    return memory;
  }
  void deallocate(void* memory) override { cuda_.Free(memory); }

  void* pinned(int64_t bytes) override {
    const auto found = free_.lower_bound(bytes);
    if (found != free_.end()) {
      void* memory = found->second;
      used_[memory] = found->first;
      free_.erase(found);
      return memory;
    }
    void* memory = nullptr;
    check(cuda_.HostAlloc(&memory, static_cast<size_t>(bytes), kPortable), "cudaHostAlloc");
    used_[memory] = bytes;
    return memory;
  }
  void give_back(void* pinned) override {
    const auto used = used_.find(pinned);
    free_.emplace(used->second, pinned);
    used_.erase(used);
  }

  int current() const override {
    int gpu = 0;
    check(cuda_.GetDevice(&gpu), "cudaGetDevice");
    return gpu;
  }
  void use(int gpu) override {
    check(cuda_.SetDevice(gpu), "cudaSetDevice");
    gpu_ = gpu;
  }

  void* record(void* stream) override {
    void* event = nullptr;
    std::vector<void*>& events = events_[gpu_];
    if (events.empty()) {
      check(cuda_.EventCreateWithFlags(&event, kNoTiming), "cudaEventCreateWithFlags");
    } else {
      event = events.back();
      events.pop_back();
    }
    gpu_of_[event] = gpu_;
    check(cuda_.EventRecord(event, stream), "cudaEventRecord");
    return event;
  }
  void* record_copies() override { return record(stream()); }
  bool has_happened(void* event) override {
    const int status = cuda_.EventQuery(event);
    if (status == kNotReady) return false;
    check(status, "cudaEventQuery");
    return true;
  }
  void release(void* event) noexcept override { events_[gpu_of_[event]].push_back(event); }

  void copy_to_host(void* host, const void* device, int64_t bytes) override {
    check(cuda_.MemcpyAsync(host, device, static_cast<size_t>(bytes), kDeviceToHost, stream()),
          "cudaMemcpyAsync");
  }
  void copy_to_device(void* device, const void* host, int64_t bytes) override {
    check(cuda_.MemcpyAsync(device, host, static_cast<size_t>(bytes), kHostToDevice, stream()),
          "cudaMemcpyAsync");
  }

 private:
  void check(int status, const char* call) const {
    if (status != kSuccess)
      throw RuntimeError(
          message("communication backend mpi: ", call, ": ", cuda_.GetErrorString(status)));
  }
  void* stream() {
    void*& stream = streams_[gpu_];
    if (!stream) check(cuda_.StreamCreateWithFlags(&stream, kNonBlocking), "cudaStreamCreate");
    return stream;
  }

  Cuda cuda_;
  int gpu_ = 0;
  std::map<int, void*> streams_;  // by GPU; for the process's life, as CUDA's own context
  std::map<int, std::vector<void*>> events_;
  std::map<void*, int> gpu_of_;
  std::multimap<int64_t, void*> free_;
  std::map<void*, int64_t> used_;
};

}  // namespace

std::unique_ptr<Device> Device::load() {
  Cuda cuda{};
  return find_cuda(cuda) ? std::make_unique<CudaDevice>(cuda) : nullptr;
}

bool Device::is_present() {
  static const bool found = [] {
    Cuda cuda{};
    return find_cuda(cuda);
  }();
  return found;
}

}  // namespace cleave::mpi
