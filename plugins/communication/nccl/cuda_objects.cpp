#include "cuda_objects.h"

#include <utility>

#include "cleave/error.h"

namespace cleave::nccl {

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw RuntimeError(message(call, ": ", cudaGetErrorString(status)));
}

DeviceGuard::DeviceGuard(int device) {
  check(cudaGetDevice(&previous_), "cudaGetDevice");
  changed_ = previous_ != device;
  if (changed_) check(cudaSetDevice(device), "cudaSetDevice");
}

DeviceGuard::~DeviceGuard() {
  if (changed_) cudaSetDevice(previous_);
}

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

Event::Event(std::shared_ptr<EventPool> pool, cudaEvent_t event)
    : pool_(std::move(pool)), event_(event) {}
Event::Event(Event&& other) noexcept
    : pool_(std::move(other.pool_)), event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(event_, other.event_);
  return *this;
}

Event::~Event() {
  if (event_) pool_->give_back(event_);
}

void Event::record(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream), "cudaEventRecord");
}

void Event::hold_back(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}

bool Event::has_happened() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

EventPool::~EventPool() {
  for (const cudaEvent_t event : free_) cudaEventDestroy(event);
}

Event EventPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      const cudaEvent_t event = free_.back();
      free_.pop_back();
      return Event(shared_from_this(), event);
    }
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return Event(shared_from_this(), event);
}

void EventPool::give_back(cudaEvent_t event) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    free_.push_back(event);
  } catch (...) {
    cudaEventDestroy(event);
  }
}

}  // namespace cleave::nccl
