// What staging needs of CUDA, from the runtime library that is loaded when there is one: this
// plugin runs where there is none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace cleave::mpi {

/// Throws RuntimeError with CUDA's text when a call fails. Copies go through one stream of this
/// object, in order. Under the runtime's lock, but for the first two.
class Device {
 public:
  /// nullptr where there is no CUDA runtime, or no GPU.
  static std::unique_ptr<Device> load();
  /// Looked for once a process: every communicator is asked what it can do.
  static bool is_present();
  virtual ~Device() = default;

  /// GPU memory.
  virtual void* allocate(uint64_t bytes) = 0;
  virtual void deallocate(void* memory) = 0;
  /// Host memory that copies run to and from without another copy. Kept for the process's life.
  virtual void* pinned(int64_t bytes) = 0;
  virtual void give_back(void* pinned) = 0;

  /// The GPU that the calling thread works with.
  virtual int current() const = 0;
  virtual void use(int gpu) = 0;

  /// A place in the order of `stream`, or of the copies; to be released.
  virtual void* record(void* stream) = 0;
  virtual void* record_copies() = 0;
  virtual bool has_happened(void* event) = 0;
  virtual void release(void* event) noexcept = 0;
  virtual void copy_to_host(void* host, const void* device, int64_t bytes) = 0;
  virtual void copy_to_device(void* device, const void* host, int64_t bytes) = 0;
};

}  // namespace cleave::mpi
