#include "core/bench_data.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "cleave/error.h"

namespace cleave {

namespace {

constexpr int64_t kPeriod = 1009;  // prime: blocks and segments never fall on whole periods
constexpr int64_t kRankOffset = 101;
constexpr int64_t kCallOffset = 13;
constexpr int64_t kMaxValues = 13;
constexpr int kRubbish = 0x5a;

// Whole numbers up to here are exact.
int64_t largest_exact(at::ScalarType dtype) {
  switch (dtype) {
    case at::kByte:
      return 255;
    case at::kBFloat16:
      return 256;
    case at::kHalf:
      return 2048;
    default:
      return 1 << 24;
  }
}

bool is_in_place(cleave_op op) {
  return op == CLEAVE_ALL_REDUCE || op == CLEAVE_BROADCAST || op == CLEAVE_BARRIER;
}

char* bytes_of(const at::Tensor& tensor) {
  return static_cast<char*>(tensor.data_ptr());
}

// `write` gets host memory, which is copied to `target` where that is elsewhere.
template <typename Write>
void fill_from_host(const at::Tensor& target, const Write& write) {
  at::Tensor host = target.is_cpu() ? target : at::empty_like(target, at::kCPU);
  write(bytes_of(host), host.nbytes());
  if (!target.is_cpu()) target.copy_(host);
}

void fill_with(const at::Tensor& target, const at::Tensor& period) {
  const size_t period_bytes = period.nbytes();
  fill_from_host(target, [&](char* to, size_t bytes) {
    for (size_t at = 0; at < bytes; at += period_bytes)
      std::memcpy(to + at, bytes_of(period), std::min(period_bytes, bytes - at));
  });
}

int64_t count_different(const char* actual, const char* expected, size_t bytes, size_t element) {
  if (std::memcmp(actual, expected, bytes) == 0) return 0;
  int64_t wrong = 0;
  for (size_t at = 0; at < bytes; at += element)
    wrong += std::memcmp(actual + at, expected + at, element) != 0;
  return wrong;
}

int64_t count_wrong_in(const char* block, size_t block_bytes, const at::Tensor& period) {
  int64_t wrong = 0;
  const size_t period_bytes = period.nbytes();
  for (size_t at = 0; at < block_bytes; at += period_bytes)
    wrong += count_different(block + at, bytes_of(period), std::min(period_bytes, block_bytes - at),
                             period.element_size());
  return wrong;
}

}  // namespace

BenchPattern::BenchPattern(at::ScalarType dtype, int ranks)
    : dtype_(dtype), num_values_(std::min(kMaxValues, largest_exact(dtype) / ranks + 1)) {
  if (num_values_ < 2)
    throw ConfigError(message("host bench: sums over ", ranks, " ranks are not exact in ", dtype,
                              ", so they can't be checked; give another --dtype"));
}

int64_t BenchPattern::value(int64_t place) const {
  const int64_t x = place % kPeriod;
  return x * x % kPeriod % num_values_;
}

at::Tensor BenchPattern::period(int first, int count, int64_t start, int64_t call) const {
  at::Tensor values = at::zeros({kPeriod}, at::kDouble);
  double* sums = values.mutable_data_ptr<double>();
  for (int rank = first; rank < first + count; ++rank)
    for (int64_t i = 0; i < kPeriod; ++i)
      sums[i] +=
          static_cast<double>(value(start % kPeriod + i + rank * kRankOffset + call * kCallOffset));
  return values.to(dtype_);
}

BenchCall::BenchCall(cleave_op op, int64_t elements, at::ScalarType dtype, int64_t number,
                     Comm& comm, const BenchPattern& pattern, at::Device device)
    : op_(op) {
  const int rank = comm.rank(), ranks = comm.size();
  const int64_t block = elements / ranks;
  if (!is_in_place(op))
    send_ = comm.allocate(op == CLEAVE_ALL_GATHER ? block : elements, dtype, device);
  recv_ = comm.allocate(op == CLEAVE_REDUCE_SCATTER ? block : elements, dtype, device);
  input_ = pattern.period(rank, 1, 0, number);
  const auto expect = [&](int first, int count, int64_t start) {
    expected_.push_back(pattern.period(first, count, start, number));
  };
  if (op == CLEAVE_ALL_REDUCE) expect(0, ranks, 0);
  if (op == CLEAVE_REDUCE_SCATTER) expect(0, ranks, rank * block);
  if (op == CLEAVE_BROADCAST) expect(0, 1, 0);
  if (op == CLEAVE_SEND) expect((rank + ranks - 1) % ranks, 1, 0);
  for (int peer = 0; peer < ranks; ++peer) {
    if (op == CLEAVE_ALL_GATHER) expect(peer, 1, 0);
    if (op == CLEAVE_ALL_TO_ALL) expect(peer, 1, rank * block);
  }
}

void BenchCall::fill() {
  if (!send_.defined()) return fill_with(recv_, input_);
  fill_with(send_, input_);
  fill_from_host(recv_, [](char* to, size_t bytes) { std::memset(to, kRubbish, bytes); });
}

void BenchCall::run(Comm& comm) {
  switch (op_) {
    case CLEAVE_ALL_REDUCE:
      return comm.all_reduce(recv_).wait_host();
    case CLEAVE_REDUCE_SCATTER:
      return comm.reduce_scatter(recv_, send_).wait_host();
    case CLEAVE_ALL_GATHER:
      return comm.all_gather(recv_, send_).wait_host();
    case CLEAVE_BROADCAST:
      return comm.broadcast(recv_, 0).wait_host();
    case CLEAVE_ALL_TO_ALL:
      return comm.all_to_all(recv_, send_).wait_host();
    case CLEAVE_SEND: {
      comm.group_begin();
      Work received = comm.recv(recv_, (comm.rank() + comm.size() - 1) % comm.size());
      Work sent = comm.send(send_, (comm.rank() + 1) % comm.size());
      comm.group_end();
      received.wait_host();
      return sent.wait_host();
    }
    default:
      return comm.barrier();
  }
}

int64_t BenchCall::count_wrong() const {
  if (expected_.empty()) return 0;
  int64_t wrong = 0;
  const at::Tensor result = recv_.cpu();
  const size_t block_bytes = result.nbytes() / expected_.size();
  for (size_t block = 0; block < expected_.size(); ++block)
    wrong += count_wrong_in(bytes_of(result) + block * block_bytes, block_bytes, expected_[block]);
  return wrong;
}

int64_t bench_buffer_bytes(cleave_op op, int64_t bytes, int ranks) {
  if (is_in_place(op)) return bytes;
  const bool one_is_a_block = op == CLEAVE_REDUCE_SCATTER || op == CLEAVE_ALL_GATHER;
  return bytes + (one_is_a_block ? bytes / ranks : bytes);
}

}  // namespace cleave
