#include "cleave/comm.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>

#include <numeric>
#include <optional>
#include <utility>

#include "cleave/backend.h"
#include "cleave/dtype.h"
#include "cleave/error.h"
#include "comm_core.h"

namespace cleave {
namespace {

std::optional<cleave_device> map_device(at::DeviceType device) {
  if (device == at::kCPU) return CLEAVE_CPU;
  if (device == at::kCUDA) return CLEAVE_CUDA;
  return std::nullopt;
}

cleave_collective make_call(cleave_op op, int64_t count, ReduceOp reduction = ReduceOp::sum) {
  cleave_collective call{};
  call.struct_size = sizeof call;
  call.op = op;
  call.reduction = static_cast<int32_t>(reduction);
  call.count = count;
  return call;
}

int64_t sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

double wire_factor(int32_t op, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (op) {
    case CLEAVE_ALL_REDUCE:
      return 2 * share;
    case CLEAVE_REDUCE_SCATTER:
    case CLEAVE_ALL_GATHER:
    case CLEAVE_ALL_TO_ALL:
      return share;
    case CLEAVE_BROADCAST:
      return ranks > 1 ? 1 : 0;
    case CLEAVE_SEND:
      return 1;
    default:
      return 0;
  }
}

Comm::Comm(cleave_communicator* communicator, std::string name, CommStats* stats,
           int64_t timeout_ms)
    : core_(std::make_shared<detail::CommCore>(communicator, std::move(name), stats, timeout_ms)),
      rank_(core_->rank),
      size_(core_->size) {}

Comm::~Comm() = default;

const std::string& Comm::name() const {
  return core_->name;
}
std::string Comm::describe() const {
  return core_->api->describe(core_->communicator);
}

std::string Comm::algorithm(cleave_op op, at::ScalarType dtype, int64_t bytes,
                            at::DeviceType device) const {
  const auto mapped_dtype = map_dtype(dtype);
  const auto mapped_device = map_device(device);
  const char* name =
      mapped_dtype && mapped_device
          ? core_->api->algorithm(core_->communicator, op, *mapped_dtype, bytes, *mapped_device)
          : nullptr;
  if (!name)
    core_->fail(message(op_name(op), " of ", bytes, " bytes of ", dtype, " on ", device,
                        " is not supported by ", describe()));
  return name;
}

double Comm::network_bytes(cleave_op op, at::ScalarType dtype, int64_t bytes,
                           at::DeviceType device) const {
  const auto mapped_dtype = map_dtype(dtype);
  const auto mapped_device = map_device(device);
  if (!mapped_dtype || !mapped_device) return -1;
  return core_->api->network_bytes(core_->communicator, op, *mapped_dtype, bytes, *mapped_device);
}

void Comm::set_trace(CommTrace trace) {
  core_->trace = std::move(trace);
}

bool Comm::supports(cleave_op op, at::ScalarType dtype, at::DeviceType device) const {
  const auto mapped_dtype = map_dtype(dtype);
  const auto mapped_device = map_device(device);
  return mapped_dtype && mapped_device &&
         (core_->capabilities.dtypes[*mapped_device][op] >> *mapped_dtype) & 1u;
}

namespace {

/// Dense, one dtype and device for both tensors; fills the call's buffers.
void bind_tensors(const detail::CommCore& core, const at::Tensor& send, const at::Tensor& recv,
                  cleave_collective& call) {
  const char* op = op_name(call.op);
  for (const at::Tensor* tensor : {&send, &recv})
    if (tensor->defined() && (tensor->layout() != at::kStrided || !tensor->is_contiguous()))
      core.fail(message(op, " of a tensor that is not dense, sizes ", tensor->sizes(), " strides ",
                        tensor->layout() == at::kStrided ? tensor->strides() : at::IntArrayRef(),
                        "; call contiguous() first"));
  const at::Tensor& any = recv.defined() ? recv : send;
  if (send.defined() && (send.scalar_type() != any.scalar_type() || send.device() != any.device()))
    core.fail(message(op, ": input is ", send.scalar_type(), " on ", send.device(), ", output is ",
                      any.scalar_type(), " on ", any.device(), "; they must be equal"));
  const auto dtype = map_dtype(any.scalar_type());
  const auto device = map_device(any.device().type());
  if (!dtype || !device || !((core.capabilities.dtypes[*device][call.op] >> *dtype) & 1u))
    core.fail(message(op, " of ", any.scalar_type(), " on ", any.device(), " is not supported by ",
                      core.api->describe(core.communicator),
                      "; choose another dtype or communication backend"));
  call.dtype = *dtype;
  call.device = *device;
  call.send = send.defined() ? send.const_data_ptr() : nullptr;
  call.recv = recv.defined() ? recv.data_ptr() : nullptr;
}

void check_elements(const detail::CommCore& core, const char* what, int64_t actual,
                    int64_t expected, const std::string& reason) {
  if (actual != expected)
    core.fail(message(what, " has ", actual, " elements, needs ", expected, ": ", reason));
}

void check_counts(const detail::CommCore& core, const char* op,
                  const std::vector<int64_t>& counts) {
  if (static_cast<int>(counts.size()) != core.size)
    core.fail(message(op, ": ", counts.size(), " counts for ", core.size, " ranks; give one each"));
  for (const int64_t count : counts)
    if (count < 0) core.fail(message(op, ": a count is ", count, "; counts are not negative"));
}

/// Inputs queued on the device must be in memory, or ordered, before the backend reads them.
void order_inputs(const detail::CommCore& core, const at::Tensor& tensor, cleave_collective& call) {
  if (!tensor.defined() || tensor.device().is_cpu()) return;
  const c10::Stream stream = current_stream(tensor);
  if (core.capabilities.stream_ordered)
    call.stream = stream.native_handle();
  else
    stream.synchronize();
}

}  // namespace

Work Comm::submit(cleave_collective call, at::Tensor send, at::Tensor recv) {
  detail::CommCore& core = *core_;
  if (core.is_finalized)
    core.fail(message(op_name(call.op), " after finalize; communicate in quiesce() at the latest"));
  core.reap();
  if (call.op != CLEAVE_BARRIER) bind_tensors(core, send, recv, call);
  order_inputs(core, recv.defined() ? recv : send, call);
  call.timeout_ms = core.timeout_ms;
  auto state = std::make_unique<Work::State>(core_, call, std::move(send), std::move(recv));
  const int32_t status = core.api->submit(core.communicator, &call, &state->work);
  if (status != CLEAVE_OK) state->settle(status);
  core.stats->calls[call.op] += 1;
  core.stats->payload_bytes[call.op] += state->bytes;
  core.stats->wire_bytes += static_cast<double>(state->bytes) * wire_factor(call.op, size_);
  return Work(std::move(state));
}

Work Comm::all_reduce(at::Tensor tensor, ReduceOp op) {
  const auto call = make_call(CLEAVE_ALL_REDUCE, tensor.numel(), op);
  return submit(call, tensor, tensor);
}

Work Comm::reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) {
  check_elements(*core_, "reduce_scatter: input", input.numel(), output.numel() * size_,
                 message(size_, " ranks x output of ", output.numel()));
  const auto call = make_call(CLEAVE_REDUCE_SCATTER, output.numel(), op);
  return submit(call, std::move(input), std::move(output));
}

Work Comm::reduce_scatter_v(at::Tensor output, at::Tensor input, std::vector<int64_t> counts,
                            ReduceOp op) {
  check_counts(*core_, "reduce_scatter_v", counts);
  check_elements(*core_, "reduce_scatter_v: input", input.numel(), sum(counts),
                 "sum of the counts");
  check_elements(*core_, "reduce_scatter_v: output", output.numel(), counts[rank_],
                 message("counts[", rank_, "]"));
  auto call = make_call(CLEAVE_REDUCE_SCATTER, output.numel(), op);
  call.recv_counts = counts.data();
  return submit(call, std::move(input), std::move(output));
}

Work Comm::all_gather(at::Tensor output, at::Tensor input) {
  check_elements(*core_, "all_gather: output", output.numel(), input.numel() * size_,
                 message(size_, " ranks x input of ", input.numel()));
  const auto call = make_call(CLEAVE_ALL_GATHER, input.numel());
  return submit(call, std::move(input), std::move(output));
}

Work Comm::all_gather_v(at::Tensor output, at::Tensor input, std::vector<int64_t> counts) {
  check_counts(*core_, "all_gather_v", counts);
  check_elements(*core_, "all_gather_v: output", output.numel(), sum(counts), "sum of the counts");
  check_elements(*core_, "all_gather_v: input", input.numel(), counts[rank_],
                 message("counts[", rank_, "]"));
  auto call = make_call(CLEAVE_ALL_GATHER, input.numel());
  call.recv_counts = counts.data();
  return submit(call, std::move(input), std::move(output));
}

Work Comm::broadcast(at::Tensor tensor, int root) {
  auto call = make_call(CLEAVE_BROADCAST, tensor.numel());
  call.peer = root;
  return submit(call, {}, std::move(tensor));
}

Work Comm::all_to_all(at::Tensor output, at::Tensor input) {
  check_elements(*core_, "all_to_all: output", output.numel(), input.numel(), "as the input");
  if (input.numel() % size_ != 0)
    core_->fail(message("all_to_all: ", input.numel(), " elements do not divide by ", size_,
                        " ranks; use all_to_all_v"));
  const auto call = make_call(CLEAVE_ALL_TO_ALL, input.numel() / size_);
  return submit(call, std::move(input), std::move(output));
}

Work Comm::all_to_all_v(at::Tensor output, at::Tensor input, std::vector<int64_t> receive_counts,
                        std::vector<int64_t> send_counts) {
  check_counts(*core_, "all_to_all_v", receive_counts);
  check_counts(*core_, "all_to_all_v", send_counts);
  check_elements(*core_, "all_to_all_v: output", output.numel(), sum(receive_counts),
                 "sum of the receive counts");
  check_elements(*core_, "all_to_all_v: input", input.numel(), sum(send_counts),
                 "sum of the send counts");
  auto call = make_call(CLEAVE_ALL_TO_ALL, 0);
  call.send_counts = send_counts.data();
  call.recv_counts = receive_counts.data();
  return submit(call, std::move(input), std::move(output));
}

Work Comm::send(at::Tensor tensor, int peer, int tag) {
  auto call = make_call(CLEAVE_SEND, tensor.numel());
  call.peer = peer;
  call.tag = tag;
  return submit(call, std::move(tensor), {});
}

Work Comm::recv(at::Tensor tensor, int peer, int tag) {
  auto call = make_call(CLEAVE_RECV, tensor.numel());
  call.peer = peer;
  call.tag = tag;
  return submit(call, {}, std::move(tensor));
}

void Comm::barrier() {
  auto call = make_call(CLEAVE_BARRIER, 0);
  // no buffers, so any device that the backend knows
  const bool on_host = core_->capabilities.dtypes[CLEAVE_CPU][CLEAVE_BARRIER] != 0;
  call.device = on_host ? CLEAVE_CPU : CLEAVE_CUDA;
  submit(call, {}, {}).wait();
}

void Comm::group_begin() {
  if (core_->api->group_begin(core_->communicator) != CLEAVE_OK)
    core_->fail(message("group_begin: ", core_->api->error(core_->communicator)));
}

void Comm::group_end() {
  if (core_->api->group_end(core_->communicator) != CLEAVE_OK)
    core_->fail(message("group_end: ", core_->api->error(core_->communicator)));
}

at::Tensor Comm::allocate(int64_t elements, at::ScalarType dtype, at::Device device) {
  const auto mapped = map_device(device.type());
  if (elements < 0 || !mapped)
    core_->fail(message("allocate of ", elements, " elements on ", device,
                        "; give a size >= 0 on cpu or cuda"));
  const auto bytes = static_cast<uint64_t>(elements) * c10::elementSize(dtype);
  void* memory = core_->api->allocate(core_->communicator, bytes, *mapped);
  // the allocators of torch do not see this memory, the account of tensor bytes must
  if (!memory) {
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), 0, 0, device);
    core_->fail(message("allocate of ", bytes, " bytes on ", device, ": ",
                        core_->api->error(core_->communicator)));
  }
  c10::reportMemoryUsageToProfiler(memory, static_cast<int64_t>(bytes), 0, 0, device);
  auto release = [core = core_, bytes, device, kind = *mapped](void* pointer) {
    c10::reportMemoryUsageToProfiler(pointer, -static_cast<int64_t>(bytes), 0, 0, device);
    core->api->deallocate(core->communicator, pointer, bytes, kind);
  };
  return at::from_blob(memory, {elements}, std::move(release),
                       at::TensorOptions().dtype(dtype).device(device), device);
}

std::unique_ptr<Comm> Comm::split(int color, int key, std::string name) {
  cleave_communicator* child = nullptr;
  if (core_->api->split(core_->communicator, color, key, &child) != CLEAVE_OK)
    core_->fail(message("split into ", name, " (color ", color, ", key ", key,
                        "): ", core_->api->error(core_->communicator)));
  if (!child) return nullptr;
  return std::make_unique<Comm>(child, std::move(name), core_->stats, core_->timeout_ms);
}

void Comm::abort() noexcept {
  core_->api->abort(core_->communicator);
}

void Comm::wait_for_released() {
  core_->wait_for_detached();
}

void Comm::finalize() {
  core_->wait_for_detached();
  core_->is_finalized = true;
  if (core_->api->finalize(core_->communicator) != CLEAVE_OK)
    core_->fail(message("finalize: ", core_->api->error(core_->communicator)));
}

}  // namespace cleave
