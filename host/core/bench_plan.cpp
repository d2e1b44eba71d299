#include "core/bench_plan.h"

#include <algorithm>

#include "cleave/backend.h"
#include "cleave/dtype.h"
#include "cleave/error.h"
#include "config/document.h"
#include "config/option_table.h"
#include "config/quantity.h"
#include "core/communicators.h"
#include "core/device.h"

namespace cleave {

namespace {

constexpr cleave_op kOps[] = {CLEAVE_ALL_REDUCE, CLEAVE_REDUCE_SCATTER, CLEAVE_ALL_GATHER,
                              CLEAVE_BROADCAST,  CLEAVE_ALL_TO_ALL,     CLEAVE_SEND,
                              CLEAVE_BARRIER};
constexpr std::pair<const char*, at::ScalarType> kDtypes[] = {
    {"float32", at::kFloat}, {"float64", at::kDouble}, {"bfloat16", at::kBFloat16},
    {"float16", at::kHalf},  {"int32", at::kInt},      {"int64", at::kLong},
    {"uint8", at::kByte}};
constexpr int64_t kSmallestBytes = 8;
constexpr int64_t kSecondBytes = 64;
constexpr int64_t kLargestBytes = int64_t{256} << 20;
constexpr int64_t kMaxAskedBytes = int64_t{1} << 40;  // far above any memory, far below overflow
constexpr int kMaxThreads = 64;
// An operation over a slow link may take long; a dead peer must end the run all the same.
constexpr int64_t kTimeoutS = 300;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

[[noreturn]] void refuse(const char* option, const std::string& value,
                         const std::vector<std::string>& valid) {
  const std::string nearest = nearest_name(value, valid);
  throw ConfigError(message("host bench: ", option, " ", value, " is unknown; ",
                            nearest.empty() ? "" : "did you mean " + nearest + "? ",
                            "valid: ", listed(valid)));
}

at::ScalarType find_dtype(const std::string& name) {
  std::vector<std::string> valid;
  for (const auto& [known, dtype] : kDtypes) {
    if (name == known) return dtype;
    valid.emplace_back(known);
  }
  refuse("--dtype", name, valid);
}

// A barrier moves no elements: any dtype will do.
bool can(const BenchPlan& plan, cleave_op op, at::ScalarType dtype) {
  const uint32_t* dtypes =
      plan.backend.capabilities.dtypes[plan.device == at::kCUDA ? CLEAVE_CUDA : CLEAVE_CPU];
  const uint32_t bit = 1u << *map_dtype(dtype);
  if (op == CLEAVE_BARRIER) return dtypes[op] != 0;
  if (op == CLEAVE_SEND) return dtypes[CLEAVE_SEND] & dtypes[CLEAVE_RECV] & bit;
  return dtypes[op] & bit;
}

std::vector<cleave_op> find_ops(const BenchRequest& request, const BenchPlan& plan) {
  std::vector<cleave_op> available;
  std::vector<std::string> known, valid;
  for (const cleave_op op : kOps) {
    known.push_back(bench_op_name(op));
    if (!can(plan, op, plan.dtype)) continue;
    if (op == CLEAVE_SEND && plan.world_size == 1) continue;  // nobody to exchange with
    available.push_back(op);
    valid.push_back(bench_op_name(op));
  }
  if (available.empty())
    throw ConfigError(message("host bench: ", plan.config.communication.backend.name,
                              " can do nothing with ", plan.dtype_name, " on the ",
                              c10::DeviceTypeName(plan.device, true),
                              "; give another --dtype or --backend"));
  if (request.ops.empty()) return available;
  std::vector<cleave_op> ops;
  for (const std::string& name : request.ops) {
    if (std::find(known.begin(), known.end(), name) == known.end()) refuse("--op", name, known);
    const auto found = std::find(valid.begin(), valid.end(), name);
    if (found == valid.end())
      throw ConfigError(message("host bench: --op ", name, " of ", plan.dtype_name, " on ",
                                plan.world_size, " ranks is not possible with ",
                                plan.config.communication.backend.name,
                                "; valid: ", listed(valid)));
    ops.push_back(available[static_cast<size_t>(found - valid.begin())]);
  }
  return ops;
}

int64_t parse_size(const std::string& text) {
  const bool is_number = !text.empty() && text.size() < 16 &&
                         text.find_first_not_of("0123456789") == std::string::npos;
  const int64_t bytes = is_number ? std::stoll(text) : parse_bytes(text).value_or(0);
  if (bytes < 1 || bytes > kMaxAskedBytes)
    throw ConfigError(message("host bench: --bytes ", text, " is not a size; valid: 1 to ",
                              format_bytes(kMaxAskedBytes),
                              ", as 4096, 64KiB or 256MiB, separated by commas"));
  return bytes;
}

std::vector<int64_t> default_sizes() {
  std::vector<int64_t> sizes = {kSmallestBytes};
  for (int64_t bytes = kSecondBytes; bytes <= kLargestBytes; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

// What a run would read out of its file.
void set_options(const std::vector<std::string>& overrides, RunConfig& config) {
  PluginTable& backend = config.communication.backend;
  for (const Item& item : read_overrides(overrides)) {
    if (item.is_table()) continue;  // its keys follow
    const bool* flag = std::get_if<bool>(&item.value.content);
    if (item.path.size() == 3 && item.path[0] == "communication" && item.path[1] == backend.name)
      backend.options.push_back({item.path[2], to_toml(item.value.content), item.origin});
    else if (flag && dotted(item.path) == "train.deterministic")
      config.train.deterministic = *flag;
    else
      throw ConfigError(message("host bench: ", item.origin.text, "; valid: communication.",
                                backend.name, ".<option>, train.deterministic=true"));
  }
}

void set_ranks(const BenchRequest& request, const ProcessInfo& process, BenchPlan& plan) {
  const std::string& backend = plan.config.communication.backend.name;
  plan.ranks_are_threads = request.ranks.has_value();
  plan.world_size = request.ranks.value_or(process.world_size);
  if (request.ranks && process.world_size > 1)
    throw ConfigError(message("host bench: --ranks ", *request.ranks, " starts threads, but ",
                              process.launcher, " started ", process.world_size,
                              " processes; leave out --ranks or the launcher"));
  if (request.ranks && (*request.ranks < 1 || *request.ranks > kMaxThreads))
    throw ConfigError(message("host bench: --ranks ", *request.ranks, "; valid: 1 to ", kMaxThreads,
                              " threads of this process"));
  if (!request.ranks && backend == "local")
    throw ConfigError(
        "host bench: --backend local runs ranks as threads of one process; give "
        "--ranks N and no launcher");
}

}  // namespace

std::string bench_op_name(cleave_op op) {
  return op == CLEAVE_SEND ? "send_recv" : op_name(op);
}

BenchPlan make_bench_plan(const BenchRequest& request, const ProcessInfo& process) {
  if (!request.json.empty() && request.json == request.plot)
    throw ConfigError(message("host bench: --json and --plot both name ", request.json.string(),
                              "; give two files"));
  BenchPlan plan;
  PluginTable& backend = plan.config.communication.backend;
  backend.name = !request.backend.empty() ? request.backend : request.ranks ? "local" : "mpi";
  backend.origin.text = "host bench";
  set_options(request.overrides, plan.config);
  plan.config.communication.timeout_s = kTimeoutS;
  plan.dtype = find_dtype(request.dtype);
  plan.dtype_name = request.dtype;
  for (const std::string& text : request.bytes) plan.sizes.push_back(parse_size(text));
  plan.must_fit = !plan.sizes.empty();
  if (!plan.must_fit) plan.sizes = default_sizes();
  set_ranks(request, process, plan);
  plan.backend = plan_backend(plan.config);
  plan.device = planned_device(plan.config, plan.backend);
  plan.ops = find_ops(request, plan);
  return plan;
}

int64_t bench_elements(cleave_op op, int64_t bytes, int64_t element_bytes, int ranks) {
  if (op == CLEAVE_BARRIER) return 0;
  const bool is_divided =
      op == CLEAVE_REDUCE_SCATTER || op == CLEAVE_ALL_GATHER || op == CLEAVE_ALL_TO_ALL;
  const int64_t unit = is_divided ? ranks : 1;
  const int64_t elements = (bytes + element_bytes - 1) / element_bytes;
  return (elements + unit - 1) / unit * unit;
}

std::vector<int64_t> sizes_of(const BenchPlan& plan, cleave_op op) {
  return op == CLEAVE_BARRIER ? std::vector<int64_t>{0} : plan.sizes;
}

}  // namespace cleave
