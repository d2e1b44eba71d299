#include "ranks.h"

#include <dlfcn.h>

#include <stdexcept>
#include <utility>

namespace cleave::testing {

void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.ranks << " ranks";
  if (variant.segment_bytes > 0) *out << ", segments of " << variant.segment_bytes << " bytes";
  if (std::string(variant.algorithm) != "auto") *out << ", " << variant.algorithm;
  if (variant.deterministic) *out << ", deterministic";
  if (std::string(variant.wire) != "auto") *out << ", " << variant.wire;
}

Work::Work(Work&& other) noexcept : api_(other.api_), work_(std::exchange(other.work_, nullptr)) {}
Work::~Work() {
  if (work_) api_->work_release(work_);
}

Communicator::Communicator(Communicator&& other) noexcept : c_(std::exchange(other.c_, nullptr)) {}
Communicator::~Communicator() {
  if (c_) c_->api->destroy(c_);
}

cleave_capabilities Communicator::capabilities() const {
  cleave_capabilities capabilities{};
  capabilities.struct_size = sizeof capabilities;
  c_->api->capabilities(c_, &capabilities);
  return capabilities;
}

Work Communicator::start(const cleave_collective& call) {
  cleave_work* work = nullptr;
  if (c_->api->submit(c_, &call, &work) != CLEAVE_OK) throw std::runtime_error(error());
  return Work(c_->api, work);
}

int32_t Communicator::run(const cleave_collective& call) {
  return start(call).wait();
}

void Communicator::barrier() {
  EXPECT_EQ(run(collective(CLEAVE_BARRIER, CLEAVE_UINT8, nullptr, nullptr, 0)), CLEAVE_OK)
      << error();
}

cleave_communicator* Communicator::split(int color, int key) {
  cleave_communicator* child = nullptr;
  EXPECT_EQ(c_->api->split(c_, color, key, &child), CLEAVE_OK) << error();
  return child;
}

cleave_device backend_device() {
  return backend_name() == "nccl" ? CLEAVE_CUDA : CLEAVE_CPU;
}

cleave_collective collective(cleave_op op, cleave_dtype dtype, const void* send, void* recv,
                             int64_t count) {
  cleave_collective call{};
  call.struct_size = sizeof call;
  call.op = op;
  call.dtype = dtype;
  call.send = send;
  call.device = backend_device();
  call.recv = recv;
  call.count = count;
  call.timeout_ms = kTestTimeoutMs;
  return call;
}

cleave_collective transfer(cleave_op op, cleave_dtype dtype, void* data, int64_t count, int peer,
                           int tag) {
  cleave_collective call = collective(op, dtype, op == CLEAVE_SEND ? data : nullptr,
                                      op == CLEAVE_RECV ? data : nullptr, count);
  call.peer = peer;
  call.tag = tag;
  return call;
}

const cleave_plugin& load_plugin(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) throw std::runtime_error(dlerror());
  auto* entry = reinterpret_cast<cleave_plugin_entry>(dlsym(library, CLEAVE_PLUGIN_ENTRY_SYMBOL));
  if (!entry) throw std::runtime_error(dlerror());
  return *entry();
}

}  // namespace cleave::testing
