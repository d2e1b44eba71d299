#include "core/header.h"

#include <ATen/Parallel.h>

#include <iomanip>
#include <sstream>
#include <thread>

#include "core/layout.h"

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

void print_memory(std::ostream& out, const SolvedPlan& plan) {
  out << "memory per rank, predicted: " << mib(plan.memory_bytes()) << " =";
  const char* separator = " ";
  for (const MemoryItem& item : plan.memory) {
    if (item.bytes == 0) continue;
    out << separator << item.what << " " << mib(item.bytes);
    separator = " + ";
  }
  out << ", and activations\n";
}

}  // namespace

void print_plan(std::ostream& out, const RunConfig& config, const Mesh& mesh, Model& model,
                const SolvedPlan& plan) {
  const bool is_float32 = config.train.dtype == "float32";
  out << "model: " << config.model.architecture << ", " << std::fixed << std::setprecision(2)
      << static_cast<double>(model.table.num_elements()) * 1e-6 << " M parameters in "
      << model.units.size() << " units\n"
      << "mesh: " << mesh.to_string() << " = " << mesh.world_size() << " ranks\n";
  print_batch(out, config, mesh);
  out << "dtypes: parameter " << config.train.dtype << ", master "
      << (is_float32 ? "= parameter" : "float32")
      << ", gradient float32, reduction float32, optimizer state float32\n";
  print_memory(out, plan);
  out << "sent per rank and step, predicted: " << mib(plan.wire_bytes_per_step()) << "\n";
}

void print_run(std::ostream& out, const RunConfig& config, const Dataset& dataset,
               Communicators& communicators) {
  out << "data: " << config.data.path.string() << ", " << dataset.num_tokens() << " tokens, "
      << dataset.samples_per_epoch() << " samples of " << config.data.sequence_length
      << " an epoch\n"
      << "communication: " << config.communication.backend.name << ", "
      << communicators.world().describe() << "\n"
      << "threads: " << at::get_num_threads() << " per rank, "
      << std::thread::hardware_concurrency() << " cores\n"
      << "flops: 6 x matrix weights + 6 x layers x heads x head size x sequence per token "
         "(causal attention, no recompute)\n"
      << std::flush;
}

}  // namespace cleave
