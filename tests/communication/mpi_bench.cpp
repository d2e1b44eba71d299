// Measures the mpi plugin beside MPI's own collectives, in one run and on the same buffers:
//   mpirun -np 2 communication_mpi_bench
#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "ranks.h"

namespace {

using cleave::testing::collective;
using cleave::testing::Communicator;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double cpu_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& time) { return time.tv_sec * 1e3 + time.tv_usec / 1e3; };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

/// Median over `rounds` of the slowest rank's time for one call.
double median_ms(int rounds, int calls, const std::function<void()>& call) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    double mine = since(start) / calls;
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    times.push_back(slowest);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double compute_ms(int64_t iterations) {
  const auto start = Clock::now();
  volatile double sum = 0;
  for (int64_t i = 1; i <= iterations; ++i) sum = sum + 1.0 / static_cast<double>(i);
  return since(start);
}

void measure_overlap(Communicator& c, std::vector<float>& data, bool prints) {
  constexpr int64_t kIterations = 100'000'000;
  const auto call = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(),
                               static_cast<int64_t>(data.size()));
  std::vector<double> alone;
  std::vector<double> beside;
  std::vector<double> rest;
  for (int round = 0; round < 5; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    alone.push_back(compute_ms(kIterations));
    MPI_Barrier(MPI_COMM_WORLD);
    auto work = c.start(call);
    beside.push_back(compute_ms(kIterations));
    const auto start = Clock::now();
    work.wait();
    rest.push_back(since(start));
  }
  for (auto* times : {&alone, &beside, &rest}) std::sort(times->begin(), times->end());
  if (prints)
    std::printf("compute alone %.0f ms, beside a 64 MiB all_reduce %.0f ms, exposed then %.2f ms\n",
                alone[2], beside[2], rest[2]);
}

void measure_idle(bool prints) {
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double before = cpu_ms();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  if (prints)
    std::printf("idle for 2 s: %.2f ms of cpu time (%.3f %%)\n", cpu_ms() - before,
                (cpu_ms() - before) / 20);
}

}  // namespace

int main() {
  cleave::testing::Variant variant = cleave::testing::variants().front();
  cleave::testing::run_ranks(variant, [](Communicator& c) {
    const bool prints = c.rank() == 0;
    if (prints) std::printf("%s, %d ranks\n", c.describe().c_str(), c.size());
    const cleave_communicator_api& api = *c.get()->api;
    std::vector<float> data(16 << 20, 0.0f);
    for (const int64_t n : {int64_t{1024}, int64_t{16 * 1024 - 1}, int64_t{64 * 1024},
                            int64_t{1 << 20}, int64_t{16 << 20}}) {
      const int calls = n < 100'000 ? 500 : n < (4 << 20) ? 20 : 1;
      const auto call = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, data.data(), data.data(), n);
      const double ours = median_ms(11, calls, [&] { c.run(call); });
      auto* shared = static_cast<float*>(api.allocate(c.get(), 4 * n, CLEAVE_CPU));
      std::copy(data.begin(), data.begin() + n, shared);
      const auto in_place = collective(CLEAVE_ALL_REDUCE, CLEAVE_FLOAT32, shared, shared, n);
      const double direct = median_ms(11, calls, [&] { c.run(in_place); });
      api.deallocate(c.get(), shared, 4 * n, CLEAVE_CPU);
      const double theirs = median_ms(11, calls, [&] {
        MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      });
      if (prints)
        std::printf(
            "all_reduce %9lld bytes: plugin %.4f ms (its own buffers %.4f), MPI_Allreduce %.4f ms: "
            "%.2f, %.2f times as fast\n",
            static_cast<long long>(4 * n), ours, direct, theirs, theirs / ours, theirs / direct);
    }
    measure_overlap(c, data, prints);
    measure_idle(prints);
  });
  cleave::testing::finalize_ranks();
  return 0;
}
