#include "core/bench_timing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "process/network_counters.h"
#include "report/run_summary.h"

namespace cleave {

namespace {

// Short operations are called several times a sample, so that leaving the barrier at different
// moments does not count.
constexpr int64_t kSampleBytes = 1 << 20;
constexpr int64_t kMaxCalls = 64;
constexpr int kWarmUp = 2;
constexpr int kMinSamples = 10;
constexpr int kMaxSamples = 100;
constexpr double kRowSeconds = 1.5;  // samples beyond kMinSamples are taken within this

int64_t calls_in_sample(int64_t bytes) {
  return std::clamp<int64_t>(kSampleBytes / std::max<int64_t>(bytes, 1), 1, kMaxCalls);
}

at::Tensor largest(Comm& comm, at::Tensor values) {
  comm.all_reduce(values, ReduceOp::max).wait_host();
  return values;
}

int64_t sum(Comm& comm, int64_t value) {
  const at::Tensor total = at::full({1}, value, at::kLong);
  comm.all_reduce(total).wait_host();
  return total.item<int64_t>();
}

class Sampler {
 public:
  Sampler(cleave_op op, int64_t elements, at::ScalarType dtype, at::Device device, Comm& comm)
      : comm_(comm) {
    const BenchPattern pattern(dtype, comm.size());
    const int64_t bytes = elements * static_cast<int64_t>(c10::elementSize(dtype));
    for (int64_t i = 0; i < calls_in_sample(bytes); ++i)
      calls_.emplace_back(op, elements, dtype, i, comm, pattern, device);
  }

  /// Microseconds of a call on this rank.
  double sample() {
    for (BenchCall& call : calls_) call.fill();
    comm_.barrier();
    const auto start = std::chrono::steady_clock::now();
    for (BenchCall& call : calls_) call.run(comm_);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    for (const BenchCall& call : calls_) wrong_ += call.count_wrong();
    return time.count() / static_cast<double>(calls_.size());
  }

  int num_calls() const { return static_cast<int>(calls_.size()); }
  int64_t wrong() const { return wrong_; }

 private:
  Comm& comm_;
  std::vector<BenchCall> calls_;
  int64_t wrong_ = 0;
};

/// The same on all ranks.
int agree_samples(Comm& control, Sampler& sampler) {
  double us = 0;
  for (int i = 0; i < kWarmUp; ++i) us = sampler.sample();
  const double slowest = largest(control, at::full({1}, us, at::kDouble)).item<double>();
  const double wanted = kRowSeconds * 1e6 / std::max(slowest * sampler.num_calls(), 1.0);
  return static_cast<int>(std::clamp<double>(wanted, kMinSamples, kMaxSamples));
}

/// By the formula of the backend, which does not know to whom a rank sends.
double bytes_between_nodes(const BenchRow& row, cleave_op op, at::ScalarType dtype,
                           const BenchPlace& place) {
  const double bytes = place.comm.network_bytes(op, dtype, row.bytes, place.device.type());
  if (op != CLEAVE_SEND || bytes >= 0) return bytes;
  return place.far_successors < 0 ? -1 : static_cast<double>(place.far_successors * row.bytes);
}

}  // namespace

int64_t bench_row_bytes(cleave_op op, int64_t bytes, int ranks) {
  return calls_in_sample(bytes) * bench_buffer_bytes(op, bytes, ranks);
}

void measure_row(BenchRow& row, cleave_op op, at::ScalarType dtype, const BenchPlace& place,
                 bool counts_network) {
  Comm &comm = place.comm, &control = place.control;
  const auto element_bytes = static_cast<int64_t>(c10::elementSize(dtype));
  row.algorithm = comm.algorithm(op, dtype, row.bytes, place.device.type());
  Sampler sampler(op, row.bytes / element_bytes, dtype, place.device, comm);
  row.calls = sampler.num_calls();
  row.repetitions = agree_samples(control, sampler);

  at::Tensor times = at::empty({row.repetitions}, at::kDouble);
  comm.barrier();
  const int64_t sent_before = counts_network ? total_network_sent_bytes() : 0;
  for (int i = 0; i < row.repetitions; ++i) times[i] = sampler.sample();
  comm.barrier();
  const int64_t sent = counts_network ? total_network_sent_bytes() - sent_before : 0;

  largest(control, times);
  const double* first_us = times.const_data_ptr<double>();
  const std::vector<double> samples_us(first_us, first_us + row.repetitions);
  row.median_us = percentile(samples_us, 0.5);
  row.p25_us = percentile(samples_us, 0.25);
  row.p75_us = percentile(samples_us, 0.75);
  const double factor = wire_factor(op, row.ranks);
  row.algbw_gb_s = static_cast<double>(row.bytes) / row.median_us * 1e-3;
  row.busbw_gb_s = row.algbw_gb_s * factor;
  // the last rank of a broadcast passes nothing on
  const int senders = op == CLEAVE_BROADCAST ? row.ranks - 1 : row.ranks;
  row.wire_bytes = senders * static_cast<double>(row.bytes) * (row.ranks > 1 ? factor : 0);
  row.network_formula_bytes = bytes_between_nodes(row, op, dtype, place);
  row.network_bytes = static_cast<double>(sum(control, sent)) / (row.repetitions * row.calls);
  row.wrong = sum(control, sampler.wrong());
}

}  // namespace cleave
