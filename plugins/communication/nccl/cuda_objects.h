// CUDA streams, events and the current device, released when they go.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

namespace cleave::nccl {

/// RuntimeError "<call>: <CUDA's text>" unless it succeeded.
void check(cudaError_t status, const char* call);

/// The calling thread's device while this lives; the one before afterwards.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

/// Not synchronised with the legacy default stream.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class EventPool;

/// A place in a stream's order. Goes back to its pool, from where it may be recorded again: waits
/// that were enqueued before keep the older place.
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<EventPool> pool, cudaEvent_t event);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  explicit operator bool() const { return event_ != nullptr; }
  void record(cudaStream_t stream);
  /// Later work on `stream` starts after this.
  void hold_back(cudaStream_t stream) const;
  /// Whether what was recorded has happened; RuntimeError for an error on the device.
  bool has_happened() const;

 private:
  std::shared_ptr<EventPool> pool_;
  cudaEvent_t event_ = nullptr;
};

/// Events without timing. Any thread.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  EventPool() = default;
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  Event take();
  void give_back(cudaEvent_t event) noexcept;

 private:
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

}  // namespace cleave::nccl
