// A backend around another one: a fixture overrides what it changes, the rest goes through.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cleave/backend.h"

namespace cleave::test {

class ForwardingOperation : public Operation {
 public:
  explicit ForwardingOperation(std::unique_ptr<Operation> operation)
      : operation_(std::move(operation)) {}
  cleave_status poll() override { return operation_->poll(); }
  cleave_status wait_host() override { return operation_->wait_host(); }
  cleave_status wait_stream(void* stream) override { return operation_->wait_stream(stream); }
  std::string error() const override { return operation_->error(); }

 private:
  std::unique_ptr<Operation> operation_;
};

/// Leaves submit() and split() to the fixture.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  int rank() const override { return backend_->rank(); }
  int size() const override { return backend_->size(); }
  cleave_capabilities capabilities() const override { return backend_->capabilities(); }
  const std::string& describe() const override { return backend_->describe(); }
  const char* algorithm(cleave_op op, cleave_dtype dtype, int64_t bytes,
                        cleave_device device) const override {
    return backend_->algorithm(op, dtype, bytes, device);
  }
  double network_bytes(cleave_op op, cleave_dtype dtype, int64_t bytes,
                       cleave_device device) const override {
    return backend_->network_bytes(op, dtype, bytes, device);
  }
  void group_begin() override { backend_->group_begin(); }
  void group_end() override { backend_->group_end(); }
  void* allocate(uint64_t bytes, cleave_device device) override {
    return backend_->allocate(bytes, device);
  }
  void deallocate(void* memory, uint64_t bytes, cleave_device device) override {
    backend_->deallocate(memory, bytes, device);
  }
  void abort() noexcept override { backend_->abort(); }
  void finalize() override { backend_->finalize(); }

 protected:
  Backend& inner() { return *backend_; }

 private:
  std::unique_ptr<Backend> backend_;
};

}  // namespace cleave::test
