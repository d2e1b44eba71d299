#include "cleave/backend.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>

#include "cleave/error.h"

namespace cleave {
namespace {

// The C table's error(): the text of this thread's last failure, as errno is for C functions.
thread_local std::string last_error;

struct Communicator : cleave_communicator {
  std::unique_ptr<Backend> backend;
  cleave_capabilities capabilities;
  int rank;
  int size;
};

struct WorkHandle {
  std::unique_ptr<Operation> operation;
  bool stream_ordered;
};

/// Arguments that the generic checks refuse.
struct Refusal {
  cleave_status status;
  std::string text;
};

template <typename... Parts>
[[noreturn]] void refuse(cleave_status status, const Parts&... parts) {
  throw Refusal{status, message(parts...)};
}

void remember(const std::string& text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
}

template <typename Body>
int32_t guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const Refusal& refusal) {
    remember(refusal.text);
    return refusal.status;
  } catch (const ConfigError& error) {
    remember(error.what());
    return CLEAVE_INVALID;
  } catch (const std::exception& error) {
    remember(error.what());
    return CLEAVE_FAILED;
  } catch (...) {
    remember("an exception that is not a std::exception");
    return CLEAVE_FAILED;
  }
}

Communicator& self(cleave_communicator* communicator) {
  return *static_cast<Communicator*>(communicator);
}
WorkHandle& handle(cleave_work* work) {
  return *reinterpret_cast<WorkHandle*>(work);
}

bool reduces(int32_t op) {
  return op == CLEAVE_ALL_REDUCE || op == CLEAVE_REDUCE_SCATTER;
}
bool has_peer(int32_t op) {
  return op == CLEAVE_BROADCAST || op == CLEAVE_SEND || op == CLEAVE_RECV;
}

void check_known(const Communicator& communicator, const cleave_collective& c) {
  if (c.struct_size < sizeof(cleave_collective))
    refuse(CLEAVE_INVALID, "submit: cleave_collective of ", c.struct_size, " bytes, needs ",
           sizeof(cleave_collective), "; build the caller with this SDK");
  if (c.op < 0 || c.op >= CLEAVE_NUM_OPS) refuse(CLEAVE_INVALID, "submit: unknown op ", c.op);
  const char* op = op_name(c.op);
  if (c.device < 0 || c.device >= CLEAVE_NUM_DEVICES)
    refuse(CLEAVE_INVALID, op, ": unknown device ", c.device);
  if (c.op != CLEAVE_BARRIER && (c.dtype < 0 || c.dtype >= CLEAVE_NUM_DTYPES))
    refuse(CLEAVE_INVALID, op, ": unknown dtype ", c.dtype);
  if (reduces(c.op) && c.reduction != CLEAVE_SUM && c.reduction != CLEAVE_MAX)
    refuse(CLEAVE_INVALID, op, ": unknown reduction ", c.reduction);
  if (has_peer(c.op) && (c.peer < 0 || c.peer >= communicator.size))
    refuse(CLEAVE_INVALID, op, ": peer ", c.peer, " is not a rank of ", communicator.size);
  if ((c.op == CLEAVE_SEND || c.op == CLEAVE_RECV) && c.tag < 0)
    refuse(CLEAVE_INVALID, op, ": tag ", c.tag, " is negative");
  if (c.timeout_ms < 0)
    refuse(CLEAVE_INVALID, op, ": timeout_ms ", c.timeout_ms, " is negative; 0 means no limit");
}

void check_capability(const Communicator& communicator, const cleave_collective& c) {
  const uint32_t dtypes = communicator.capabilities.dtypes[c.device][c.op];
  const bool supported = c.op == CLEAVE_BARRIER ? dtypes != 0 : (dtypes >> c.dtype) & 1u;
  if (!supported)
    refuse(CLEAVE_UNSUPPORTED, op_name(c.op), " of ", dtype_name(c.dtype), " on ",
           c.device == CLEAVE_CPU ? "cpu" : "cuda", " is not supported by ",
           communicator.backend->describe(), "; choose another communication backend");
}

int64_t total(const cleave_collective& c, const int64_t* counts, const char* name, int n) {
  int64_t sum = 0;
  for (int rank = 0; rank < n; ++rank) {
    if (counts[rank] < 0)
      refuse(CLEAVE_INVALID, op_name(c.op), ": ", name, "[", rank, "] is ", counts[rank]);
    if (__builtin_add_overflow(sum, counts[rank], &sum))
      refuse(CLEAVE_INVALID, op_name(c.op), ": the sum of ", name, " exceeds 64 bits");
  }
  return sum;
}

struct Extents {
  int64_t send;
  int64_t recv;
};

/// Elements of both buffers by the table in communicator.h.
Extents extents(const Communicator& communicator, const cleave_collective& c) {
  const int n = communicator.size;
  int64_t all = 0;
  if (__builtin_mul_overflow(c.count, static_cast<int64_t>(n), &all))
    refuse(CLEAVE_INVALID, op_name(c.op), ": ", n, " x ", c.count, " elements exceed 64 bits");
  switch (c.op) {
    case CLEAVE_ALL_REDUCE:
      return {c.count, c.count};
    case CLEAVE_REDUCE_SCATTER:
      if (!c.recv_counts) return {all, c.count};
      all = total(c, c.recv_counts, "recv_counts", n);
      return {all, c.recv_counts[communicator.rank]};
    case CLEAVE_ALL_GATHER:
      if (!c.recv_counts) return {c.count, all};
      all = total(c, c.recv_counts, "recv_counts", n);
      return {c.recv_counts[communicator.rank], all};
    case CLEAVE_ALL_TO_ALL:
      if (!c.recv_counts && !c.send_counts) return {all, all};
      if (!c.recv_counts || !c.send_counts)
        refuse(CLEAVE_INVALID, "all_to_all: the v form needs send_counts and recv_counts");
      if (const int me = communicator.rank; c.send_counts[me] != c.recv_counts[me])
        refuse(CLEAVE_INVALID, "all_to_all: rank ", me, " sends itself ", c.send_counts[me],
               " elements and expects ", c.recv_counts[me]);
      return {total(c, c.send_counts, "send_counts", n), total(c, c.recv_counts, "recv_counts", n)};
    case CLEAVE_SEND:
      return {c.count, 0};
    case CLEAVE_BROADCAST:
    case CLEAVE_RECV:
      return {0, c.count};
    default:
      return {0, 0};
  }
}

void check_sizes(const Communicator& communicator, const cleave_collective& c) {
  if (c.count < 0) refuse(CLEAVE_INVALID, op_name(c.op), ": count ", c.count, " is negative");
  const Extents elements = extents(communicator, c);
  if (c.op == CLEAVE_BARRIER) return;
  const int64_t limit = std::numeric_limits<int64_t>::max() / dtype_bytes(c.dtype);
  if (std::max(elements.send, elements.recv) > limit)
    refuse(CLEAVE_INVALID, op_name(c.op), ": ", std::max(elements.send, elements.recv),
           " elements of ", dtype_name(c.dtype), " exceed 64 bits");
  if ((elements.send > 0 && !c.send) || (elements.recv > 0 && !c.recv))
    refuse(CLEAVE_INVALID, op_name(c.op), ": a buffer is NULL for ", elements.send,
           " elements to send and ", elements.recv, " to receive");
  if (c.op == CLEAVE_ALL_TO_ALL && elements.send > 0 && c.send == c.recv)
    refuse(CLEAVE_INVALID, "all_to_all: not in place; give separate buffers");
}

int32_t rank_thunk(cleave_communicator* c) {
  return self(c).rank;
}
int32_t size_thunk(cleave_communicator* c) {
  return self(c).size;
}

void capabilities_thunk(cleave_communicator* c, cleave_capabilities* out) {
  const uint32_t size = std::min<uint32_t>(out->struct_size, sizeof(cleave_capabilities));
  std::memcpy(out, &self(c).capabilities, size);
  out->struct_size = size;
}

const char* describe_thunk(cleave_communicator* c) {
  return self(c).backend->describe().c_str();
}
/// Whether the communicator can do such an operation.
void check_question(const Communicator& communicator, int32_t op, int32_t dtype, int64_t bytes,
                    int32_t device) {
  cleave_collective call{};
  call.struct_size = sizeof call;
  call.op = op;
  call.dtype = dtype;
  call.device = device;
  check_known(communicator, call);
  check_capability(communicator, call);
  if (bytes < 0) refuse(CLEAVE_INVALID, op_name(op), ": ", bytes, " bytes is negative");
}
const char* algorithm_thunk(cleave_communicator* c, int32_t op, int32_t dtype, int64_t bytes,
                            int32_t device) {
  const char* name = nullptr;
  guarded([&] {
    check_question(self(c), op, dtype, bytes, device);
    name = self(c).backend->algorithm(static_cast<cleave_op>(op), static_cast<cleave_dtype>(dtype),
                                      bytes, static_cast<cleave_device>(device));
    return CLEAVE_OK;
  });
  return name;
}
double network_bytes_thunk(cleave_communicator* c, int32_t op, int32_t dtype, int64_t bytes,
                           int32_t device) {
  double sent = -1;
  guarded([&] {
    check_question(self(c), op, dtype, bytes, device);
    sent =
        self(c).backend->network_bytes(static_cast<cleave_op>(op), static_cast<cleave_dtype>(dtype),
                                       bytes, static_cast<cleave_device>(device));
    return CLEAVE_OK;
  });
  return sent;
}
const char* error_thunk(cleave_communicator*) {
  return last_error.c_str();
}

int32_t submit_thunk(cleave_communicator* c, const cleave_collective* collective,
                     cleave_work** work) {
  return guarded([&] {
    *work = nullptr;
    Communicator& communicator = self(c);
    check_known(communicator, *collective);
    check_capability(communicator, *collective);
    check_sizes(communicator, *collective);
    auto started = std::make_unique<WorkHandle>();
    started->stream_ordered = communicator.capabilities.stream_ordered != 0;
    started->operation = communicator.backend->submit(*collective);
    *work = reinterpret_cast<cleave_work*>(started.release());
    return CLEAVE_OK;
  });
}

template <typename Call>
int32_t on_work(cleave_work* work, Call&& call) noexcept {
  return guarded([&] {
    Operation& operation = *handle(work).operation;
    const cleave_status status = call(operation);
    if (status != CLEAVE_OK && status != CLEAVE_PENDING) remember(operation.error());
    return status;
  });
}

int32_t poll_thunk(cleave_work* work) {
  return on_work(work, [](Operation& operation) { return operation.poll(); });
}
int32_t wait_host_thunk(cleave_work* work) {
  return on_work(work, [](Operation& operation) { return operation.wait_host(); });
}
int32_t wait_stream_thunk(cleave_work* work, void* stream) {
  return on_work(work, [&](Operation& operation) {
    return handle(work).stream_ordered ? operation.wait_stream(stream) : operation.wait_host();
  });
}
void release_thunk(cleave_work* work) {
  delete &handle(work);
}

int32_t group_begin_thunk(cleave_communicator* c) {
  return guarded([&] { return self(c).backend->group_begin(), CLEAVE_OK; });
}
int32_t group_end_thunk(cleave_communicator* c) {
  return guarded([&] { return self(c).backend->group_end(), CLEAVE_OK; });
}

int32_t split_thunk(cleave_communicator* c, int32_t color, int32_t key,
                    cleave_communicator** child) {
  return guarded([&] {
    *child = nullptr;
    if (color < -1) refuse(CLEAVE_INVALID, "split: color ", color, "; use -1 for no group");
    if (auto backend = self(c).backend->split(color, key)) *child = to_c(std::move(backend));
    return CLEAVE_OK;
  });
}

void* allocate_thunk(cleave_communicator* c, uint64_t bytes, int32_t device) {
  void* memory = nullptr;
  guarded([&] {
    memory = self(c).backend->allocate(bytes, static_cast<cleave_device>(device));
    return CLEAVE_OK;
  });
  return memory;
}
void deallocate_thunk(cleave_communicator* c, void* memory, uint64_t bytes, int32_t device) {
  guarded([&] {
    self(c).backend->deallocate(memory, bytes, static_cast<cleave_device>(device));
    return CLEAVE_OK;
  });
}

void abort_thunk(cleave_communicator* c) {
  self(c).backend->abort();
}
int32_t finalize_thunk(cleave_communicator* c) {
  return guarded([&] { return self(c).backend->finalize(), CLEAVE_OK; });
}
void destroy_thunk(cleave_communicator* c) {
  delete &self(c);
}

constexpr cleave_communicator_api kApi = {
    sizeof(cleave_communicator_api),
    rank_thunk,
    size_thunk,
    capabilities_thunk,
    describe_thunk,
    algorithm_thunk,
    network_bytes_thunk,
    error_thunk,
    submit_thunk,
    poll_thunk,
    wait_host_thunk,
    wait_stream_thunk,
    release_thunk,
    group_begin_thunk,
    group_end_thunk,
    split_thunk,
    allocate_thunk,
    deallocate_thunk,
    abort_thunk,
    finalize_thunk,
    destroy_thunk,
};

}  // namespace

const char* op_name(int32_t op) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                    "all_to_all", "send",           "recv",       "barrier"};
  return op >= 0 && op < CLEAVE_NUM_OPS ? kNames[op] : "?";
}

const char* reduction_name(int32_t reduction) {
  return reduction == CLEAVE_SUM ? "sum" : reduction == CLEAVE_MAX ? "max" : "?";
}

const char* dtype_name(int32_t dtype) {
  constexpr const char* kNames[] = {"float32", "float64", "bfloat16", "float16",
                                    "int32",   "int64",   "uint8"};
  return dtype >= 0 && dtype < CLEAVE_NUM_DTYPES ? kNames[dtype] : "?";
}

int64_t dtype_bytes(int32_t dtype) {
  constexpr int64_t kBytes[] = {4, 8, 2, 2, 4, 8, 1};
  return dtype >= 0 && dtype < CLEAVE_NUM_DTYPES ? kBytes[dtype] : 0;
}

cleave_capabilities cpu_capabilities() {
  cleave_capabilities capabilities{};
  capabilities.struct_size = sizeof capabilities;
  for (uint32_t& dtypes : capabilities.dtypes[CLEAVE_CPU]) dtypes = (1u << CLEAVE_NUM_DTYPES) - 1;
  return capabilities;
}

cleave_communicator* to_c(std::unique_ptr<Backend> backend) {
  auto communicator = std::make_unique<Communicator>();
  communicator->api = &kApi;
  communicator->capabilities = backend->capabilities();
  communicator->rank = backend->rank();
  communicator->size = backend->size();
  communicator->backend = std::move(backend);
  return communicator.release();
}

int32_t create_with_status(std::unique_ptr<Backend> (*create)(const cleave_bootstrap&,
                                                              const cleave_options*),
                           const cleave_bootstrap* bootstrap, const cleave_options* options,
                           cleave_communicator** out, char* error, uint64_t error_capacity) {
  const int32_t status = guarded([&] {
    *out = nullptr;
    *out = to_c(create(*bootstrap, options));
    return CLEAVE_OK;
  });
  if (status != CLEAVE_OK && error_capacity > 0)
    std::snprintf(error, error_capacity, "%s", last_error.c_str());
  return status;
}

}  // namespace cleave
