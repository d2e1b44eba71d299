#include "core/header.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <iomanip>
#include <set>
#include <sstream>
#include <thread>

#include "core/layout.h"
#include "core/memory_table.h"

namespace cleave {

namespace {

constexpr double kMiB = 1024.0 * 1024.0;

std::string mib(double bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(bytes < 10 * kMiB ? 2 : 1) << bytes / kMiB << " MiB";
  return text.str();
}

void print_batch(std::ostream& out, const RunConfig& config, const Mesh& mesh) {
  const TrainConfig& train = config.train;
  out << "batch: " << train.global_batch_size << " = micro " << train.micro_batch_size << " x "
      << num_micro_batches(config, mesh) << " micro-batches x data " << mesh.size("data") << " ("
      << train.global_batch_size * config.data.sequence_length << " tokens a step, " << train.steps
      << " steps)\n";
}

std::string dtype_name(at::ScalarType dtype) {
  return dtype == at::kFloat ? "float32" : dtype == at::kBFloat16 ? "bfloat16" : toString(dtype);
}

// Dtypes in which the data axis moves gradients or values; empty when it does not.
std::string moved_as(const SolvedPlan& plan, std::initializer_list<cleave_op> ops) {
  std::set<std::string> names;
  for (const auto& [strategy, use] : plan.communication)
    if (use.axis.starts_with("data") && std::find(ops.begin(), ops.end(), use.op) != ops.end())
      names.insert(dtype_name(use.dtype));
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " and ") + name;
  return text;
}

void print_dtypes(std::ostream& out, const std::string& dtype, const SolvedPlan& plan) {
  const std::string reduced = moved_as(plan, {CLEAVE_ALL_REDUCE, CLEAVE_REDUCE_SCATTER});
  const std::string gathered = moved_as(plan, {CLEAVE_ALL_GATHER});
  out << "dtypes: parameter " << dtype << (gathered.empty() ? "" : ", gathered in ") << gathered
      << ", master " << (dtype == "float32" ? "= parameter" : "float32")
      << ", gradient float32, reduction " << (reduced.empty() ? "float32" : reduced)
      << ", optimizer state float32\n";
}

void print_backends(std::ostream& out, const Communicators& communicators) {
  const auto backends = communicators.describe();
  for (const auto& backend : backends) {
    out << "communication: " << backend.name << ", " << backend.path;
    const char* separator = ", for ";
    for (size_t i = 0; backends.size() > 1 && i < backend.serves.size(); ++i) {
      out << separator << backend.serves[i];
      separator = ", ";
    }
    out << "\n";
  }
}

}  // namespace

void print_plan(std::ostream& out, const PlannedRun& run) {
  const RunConfig& config = run.config;
  out << "model: " << config.model.architecture << ", " << std::fixed << std::setprecision(2)
      << static_cast<double>(run.model.table.num_elements()) * 1e-6 << " M parameters in "
      << run.chunk_of_unit.size() << " units\n"
      << "mesh: " << run.mesh.to_string() << " = " << run.mesh.world_size() << " ranks\n";
  print_batch(out, config, run.mesh);
  print_dtypes(out, config.train.dtype, run.plan);
  print_memory(out, run.plan);
  out << "sent per rank and step, predicted: " << mib(run.plan.wire_bytes_per_step()) << "\n";
}

void print_run(std::ostream& out, const RunConfig& config, const Dataset& dataset,
               Communicators& communicators) {
  out << "data: " << config.data.path.string() << ", " << dataset.num_tokens() << " tokens, "
      << dataset.samples_per_epoch() << " samples of " << config.data.sequence_length
      << " an epoch\n";
  print_backends(out, communicators);
  out << "threads: " << at::get_num_threads() << " per rank, "
      << std::thread::hardware_concurrency() << " cores\n"
      << "flops: 6 x matrix weights + 6 x layers x heads x head size x sequence per token "
         "(causal attention, no recompute)\n"
      << std::flush;
}

}  // namespace cleave
