#include "core/bench.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>

#include "cleave/error.h"
#include "config/quantity.h"
#include "core/bench_plan.h"
#include "core/bench_report.h"
#include "core/bench_timing.h"
#include "core/communicators.h"
#include "core/device.h"
#include "core/rank.h"
#include "data/output_file.h"
#include "process/network_counters.h"

namespace cleave {

namespace {

// Of the memory that is free, what the buffers of a row may take: the backend needs some too.
constexpr double kMemoryShare = 0.4;

// For the buffers of one rank. MemAvailable of a machine is shared by its ranks; the largest number
// where the kernel does not tell.
int64_t available_bytes(at::Device device, int local_size) {
  if (!device.is_cpu())
    return static_cast<int64_t>(
        c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index()).first);
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t kib = 0;
  while (file >> key >> kib >> unit)
    if (key == "MemAvailable:") return kib * 1024 / local_size;
  return INT64_MAX;
}

int64_t reduced(Comm& comm, int64_t value, ReduceOp op) {
  const at::Tensor all = at::full({1}, value, at::kLong);
  comm.all_reduce(all, op).wait_host();
  return all.item<int64_t>();
}

// Ranks whose next one (the last one's is the first) is on another node, by the nodes' names;
// negative where these are not as many as the launcher's nodes.
int64_t count_far_successors(Comm& comm, int nodes) {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  const at::Tensor mine = at::full({1}, static_cast<int64_t>(fingerprint(name)), at::kLong);
  const at::Tensor all = at::empty({comm.size()}, at::kLong);
  comm.all_gather(all, mine).wait_host();
  const auto* node_of = all.const_data_ptr<int64_t>();
  if (std::set(node_of, node_of + comm.size()).size() != static_cast<size_t>(nodes)) return -1;
  int64_t far = 0;
  for (int rank = 0; rank < comm.size(); ++rank)
    far += node_of[rank] != node_of[(rank + 1) % comm.size()];
  return far;
}

// Every rank gets the text of the rank that failed first, from which the others' failures follow;
// empty when none has failed. `after_us`: since the row began on this rank.
std::string agree_on_failure(Comm& world, const std::string& mine, int64_t after_us) {
  constexpr int64_t kNever = INT64_MAX;
  const int64_t place = mine.empty() ? kNever : after_us * world.size() + world.rank();
  const int64_t first = -reduced(world, -place, ReduceOp::max);
  if (first == kNever) return "";
  const int64_t holder = first % world.size();
  const bool speaks = holder == world.rank();
  const int64_t length =
      reduced(world, speaks ? static_cast<int64_t>(mine.size()) : 0, ReduceOp::max);
  at::Tensor text = at::zeros({length}, at::kByte);
  if (speaks) std::memcpy(text.mutable_data_ptr(), mine.data(), mine.size());
  world.broadcast(text, static_cast<int>(holder)).wait_host();
  return {static_cast<const char*>(text.const_data_ptr()), static_cast<size_t>(length)};
}

class Bench {
 public:
  Bench(const BenchPlan& plan, const ProcessInfo& process, at::Device device,
        Communicators& communicators, std::ostream& out)
      : plan_(plan),
        process_(process),
        device_(device),
        communicators_(communicators),
        world_(communicators.world()),
        control_(communicators.control()),
        out_(out) {
    result_.backend = plan.config.communication.backend.name;
    result_.path = world_.describe();
    result_.dtype = plan.dtype_name;
    result_.ranks = world_.size();
    result_.nodes = static_cast<int>(reduced(control_, process.local_rank == 0, ReduceOp::sum));
    far_successors_ = count_far_successors(control_, result_.nodes);
    for (const auto& [name, bytes] : network_sent_bytes()) result_.interfaces.push_back(name);
    const double mine =
        kMemoryShare * static_cast<double>(available_bytes(device, process.local_size));
    memory_bytes_ = -reduced(control_, -static_cast<int64_t>(mine), ReduceOp::max);
  }

  BenchResult run() {
    plan_rows();
    if (world_.rank() == 0) print_bench_header(out_, result_);
    for (size_t i = 0; i < result_.rows.size(); ++i) {
      measure(result_.rows[i], ops_[i]);
      if (world_.rank() == 0) print_bench_row(out_, result_.rows[i]);
    }
    if (world_.rank() == 0) print_bench_summary(out_, result_);
    return result_;
  }

 private:
  void plan_rows() {
    const auto element_bytes = static_cast<int64_t>(c10::elementSize(plan_.dtype));
    for (const cleave_op op : plan_.ops)
      for (const int64_t asked : sizes_of(plan_, op)) {
        BenchRow row;
        row.op = bench_op_name(op);
        row.dtype = plan_.dtype_name;
        row.asked_bytes = asked;
        row.bytes = bench_elements(op, asked, element_bytes, world_.size()) * element_bytes;
        row.ranks = world_.size();
        if (!fits(row, op)) continue;
        result_.rows.push_back(row);
        ops_.push_back(op);
      }
  }

  bool fits(const BenchRow& row, cleave_op op) {
    const int64_t needed = bench_row_bytes(op, row.bytes, row.ranks);
    if (needed <= memory_bytes_) return true;
    const std::string reason =
        message(row.op, " of ", format_bytes(row.asked_bytes), " needs ", needed >> 20,
                " MiB of buffers per rank, ", memory_bytes_ >> 20, " MiB are there");
    if (plan_.must_fit)
      throw ConfigError("host bench: " + reason + "; give smaller --bytes or fewer ranks");
    result_.left_out.push_back(reason);
    return false;
  }

  // On a communicator of its own: what a failed operation leaves behind can't reach the next row.
  void measure(BenchRow& row, cleave_op op) {
    std::unique_ptr<Comm> comm = world_.split(0, world_.rank(), "bench");
    const std::unique_ptr<Comm> own_control =
        communicators_.new_control(message("row ", num_measured_++));
    Comm& control = own_control ? *own_control : *comm;
    const auto start = std::chrono::steady_clock::now();
    std::string failure;
    try {
      measure_row(row, op, plan_.dtype, {*comm, control, device_, far_successors_},
                  process_.local_rank == 0);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    if (!failure.empty()) comm->abort();
    if (!failure.empty()) control.abort();
    // ranks start a row at slightly different times, so time alone can't tell cause from
    // consequence
    constexpr int64_t kHourUs = 3'600'000'000;
    const bool is_consequence = failure.find("aborted") != std::string::npos;
    row.failure = agree_on_failure(
        control_, failure, static_cast<int64_t>(time.count()) + (is_consequence ? kHourUs : 0));
    if (!row.failure.empty()) return;
    comm->finalize();
    if (own_control) own_control->finalize();
  }

  const BenchPlan& plan_;
  const ProcessInfo& process_;
  const at::Device device_;
  Communicators& communicators_;
  Comm& world_;
  Comm& control_;  // outlives failed rows
  std::ostream& out_;
  int num_measured_ = 0;
  int64_t memory_bytes_;
  int64_t far_successors_;
  BenchResult result_;
  std::vector<cleave_op> ops_;  // of the rows
};

bool is_good(const BenchResult& result) {
  return std::all_of(result.rows.begin(), result.rows.end(),
                     [](const BenchRow& row) { return row.failure.empty() && row.wrong == 0; });
}

bool has_failure(const BenchResult& result) {
  return std::any_of(result.rows.begin(), result.rows.end(),
                     [](const BenchRow& row) { return !row.failure.empty(); });
}

// Opened before anything is measured, so that a file that can't be written costs no time.
class ResultFiles {
 public:
  ResultFiles(const BenchRequest& request, bool writes) {
    if (!writes) return;
    if (!request.json.empty()) json_.emplace(request.json);
    if (!request.plot.empty()) plot_.emplace(request.plot);
  }
  void write(const BenchResult& result) {
    if (json_) write(*json_, bench_json(result));
    if (plot_) write(*plot_, bench_svg(result));
  }

 private:
  static void write(OutputFile& file, const std::string& text) {
    file.append(text);
    file.sync();
    file.publish();
  }

  std::optional<OutputFile> json_, plot_;
};

// Measures every op of the plan at every size, on this rank. Collective; rank 0 prints each row
// when it is there and then writes the files. A row that fails is kept with its reason and the next
// one is measured. Returns whether all are right; the same on all ranks.
bool bench_as_rank(const BenchPlan& plan, const ProcessInfo& process, const Bootstrap& bootstrap,
                   const std::function<void()>& on_failure, ResultFiles& files, std::ostream& out) {
  RunConfig config = plan.config;
  const at::Device device = open_device(config, plan.backend, process);
  Communicators communicators(config, Mesh({{"data", process.world_size}}), bootstrap);
  try {
    std::string request = plan.dtype_name;
    for (const cleave_op op : plan.ops) request += message(" ", bench_op_name(op));
    for (const int64_t bytes : plan.sizes) request += message(" ", bytes);
    check_agreement(communicators.control(), {{"the operations and sizes", fingerprint(request)},
                                              communicators.fingerprint()});
    const BenchResult result = Bench(plan, process, device, communicators, out).run();
    if (process.rank == 0) files.write(result);
    communicators.control().barrier();  // a rank that leaves with an error ends rank 0
    // what a failed operation left behind may never end
    if (has_failure(result))
      communicators.abort();
    else
      communicators.finalize();
    return is_good(result);
  } catch (...) {
    on_failure();
    communicators.abort();
    throw;
  }
}

}  // namespace

bool bench(const BenchRequest& request, const ProcessInfo& process, std::ostream& out) {
  const BenchPlan plan = make_bench_plan(request, process);
  ResultFiles files(request, process.rank == 0);
  if (!plan.ranks_are_threads)
    return bench_as_rank(
        plan, process, *make_process_bootstrap(process), [] {}, files, out);
  std::atomic<bool> is_right = true;
  run_as_threads(plan.world_size,
                 [&](const auto& rank, const auto& bootstrap, const auto& on_failure) {
                   if (!bench_as_rank(plan, rank, bootstrap, on_failure, files, out))
                     is_right = false;
                 });
  return is_right;
}

}  // namespace cleave
