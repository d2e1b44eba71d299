// For authors of communication plugins: implement Backend and Operation, export the plugin with
// `backend_api()`; the C table of communicator.h is generated, with every exception turned into a
// status and a text. Contracts (sizes, threads, in-place rules) stand in communicator.h.
#pragma once

#include <memory>
#include <string>

#include "cleave/communicator.h"
#include "cleave/plugin.h"

namespace cleave {

/// A started operation. Destroying it before it is done must not cancel it.
class Operation {
 public:
  virtual ~Operation() = default;
  /// CLEAVE_OK, CLEAVE_PENDING or a failure; never blocks.
  virtual cleave_status poll() = 0;
  /// Blocks until done, failed, timed out or aborted.
  virtual cleave_status wait_host() = 0;
  /// Makes later work on `stream` wait. Backends that are not stream-ordered never see this call.
  virtual cleave_status wait_stream(void* stream) = 0;
  /// Why it failed; empty otherwise.
  virtual std::string error() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;  // local; never communicates
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual cleave_capabilities capabilities() const = 0;
  virtual const std::string& describe() const = 0;
  /// How submit would do a supported operation whose larger buffer has `bytes` (reductions: their
  /// sum), in a word or two; lives as long as this. Benchmarks print it: it must be what happens.
  virtual const char* algorithm(cleave_op op, cleave_dtype dtype, int64_t bytes,
                                cleave_device device) const = 0;
  /// Bytes, without headers, that all ranks together send to other machines in that operation;
  /// equal blocks, a broadcast is rank 0's. Negative: not known. Benchmarks compare it with the
  /// counters of the network interfaces.
  virtual double network_bytes(cleave_op, cleave_dtype, int64_t /*bytes*/, cleave_device) const {
    return -1;
  }

  /// `collective` has been checked: known op, supported dtype and device, sizes not negative.
  virtual std::unique_ptr<Operation> submit(const cleave_collective& collective) = 0;
  virtual void group_begin() = 0;
  virtual void group_end() = 0;

  /// nullptr for color -1.
  virtual std::unique_ptr<Backend> split(int color, int key) = 0;
  virtual void* allocate(uint64_t bytes, cleave_device device) = 0;
  virtual void deallocate(void* memory, uint64_t bytes, cleave_device device) = 0;

  virtual void abort() noexcept = 0;
  virtual void finalize() = 0;
};

/// Wraps a backend into the C table; `destroy` deletes it.
cleave_communicator* to_c(std::unique_ptr<Backend> backend);

/// As messages spell them: "all_reduce", "sum", "float32"; "?" for an unknown value.
const char* op_name(int32_t op);
const char* reduction_name(int32_t reduction);
const char* dtype_name(int32_t dtype);
/// Bytes of one element; 0 for an unknown dtype.
int64_t dtype_bytes(int32_t dtype);
/// All ops x dtypes on the CPU, nothing on other devices: what a host-memory backend starts from.
cleave_capabilities cpu_capabilities();

/// Runs `create`, turns exceptions into a status and text: the body of create_communicator.
int32_t create_with_status(std::unique_ptr<Backend> (*create)(const cleave_bootstrap&,
                                                              const cleave_options*),
                           const cleave_bootstrap* bootstrap, const cleave_options* options,
                           cleave_communicator** out, char* error, uint64_t error_capacity);

}  // namespace cleave
