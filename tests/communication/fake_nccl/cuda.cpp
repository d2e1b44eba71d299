#include <cstdlib>
#include <cstring>
#include <map>

#include "state.h"

namespace cleave::fake {
namespace {

thread_local int device_of_thread = 0;

}  // namespace

State& state() {
  static State instance;
  return instance;
}

void reset() {
  const std::lock_guard lock(state().mutex);
  state().settings = {};
  state().calls.clear();
  state().mismatch.clear();
  state().async_error = ncclSuccess;
}

void set(const Settings& settings) {
  const std::lock_guard lock(state().mutex);
  state().settings = settings;
  state().changed.notify_all();
}

Settings settings() {
  const std::lock_guard lock(state().mutex);
  return state().settings;
}

std::vector<Call> calls() {
  const std::lock_guard lock(state().mutex);
  return state().calls;
}

void clear_calls() {
  const std::lock_guard lock(state().mutex);
  state().calls.clear();
}

Counts counts() {
  const std::lock_guard lock(state().mutex);
  return state().counts;
}

void set_async_error(ncclResult_t result) {
  const std::lock_guard lock(state().mutex);
  state().async_error = result;
}

std::string mismatch() {
  const std::lock_guard lock(state().mutex);
  return state().mismatch;
}

void record(Call call) {
  call.device = device_of_thread;
  const std::lock_guard lock(state().mutex);
  state().calls.push_back(std::move(call));
}

int current_device() {
  return device_of_thread;
}

Executor& executor(cudaStream_t stream) {
  if (stream) return stream->executor;
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Executor>> defaults;
  const std::lock_guard lock(mutex);
  auto& found = defaults[device_of_thread];
  if (!found) found = std::make_unique<Executor>(0);
  return *found;
}

Executor::Executor(int id) : id_(id) {
  thread_ = std::thread([this] {
    for (;;) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  });
}

Executor::~Executor() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Executor::push(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void Marker::set() {
  {
    const std::lock_guard lock(mutex_);
    set_ = true;
  }
  changed_.notify_all();
}

void Marker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return set_.load(); });
}

namespace {

template <typename T>
void count(T Counts::*member, int change) {
  const std::lock_guard lock(state().mutex);
  state().counts.*member += change;
}

int next_id() {
  const std::lock_guard lock(state().mutex);
  return state().next_id++;
}

}  // namespace
}  // namespace cleave::fake

using namespace cleave::fake;

extern "C" {

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    default:
      return error == cudaSuccess ? "no error" : "fake CUDA error";
  }
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Settings now = settings();
  if (now.device_count_error == cudaSuccess) *count = now.num_devices;
  return now.device_count_error;
}

cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  device_of_thread = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "Fake GPU");
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  const Settings now = settings();
  const std::string text = now.bus_ids.empty() ? "0000:" + std::to_string(10 + device) + ":00.0"
                                               : now.bus_ids.at(static_cast<size_t>(device));
  std::strncpy(id, text.c_str(), static_cast<size_t>(length));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *stream = new CUstream_st(next_id());
  count(&Counts::streams, 1);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  count(&Counts::streams, -1);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (flags != cudaEventDisableTiming) return cudaErrorInvalidValue;
  *event = new CUevent_st{next_id(), {}, {}};
  count(&Counts::events, 1);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  count(&Counts::events, -1);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Executor& target = executor(stream);
  record({0, "cudaEventRecord", 0, target.id(), event->id});
  auto marker = std::make_shared<Marker>();
  {
    const std::lock_guard lock(event->mutex);
    event->marker = marker;
  }
  target.push([marker] { marker->set(); });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Executor& target = executor(stream);
  record({0, "cudaStreamWaitEvent", 0, target.id(), event->id});
  const std::lock_guard lock(event->mutex);
  if (event->marker) target.push([marker = event->marker] { marker->wait(); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(event->mutex);
  return !event->marker || event->marker->is_set() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  constexpr size_t kAlignment = 256;
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  count(&Counts::allocations, 1);
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (memory) count(&Counts::allocations, -1);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  executor(stream).push([=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}

}  // extern "C"
