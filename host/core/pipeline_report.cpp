#include "core/pipeline_report.h"

#include <algorithm>
#include <fstream>
#include <iomanip>

#include "cleave/balance.h"
#include "cleave/error.h"

namespace cleave {

namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kWidestSchedule = 60;  // units of time that fit a terminal

// "embedding, layers.0 to layers.2" of each chunk.
std::string units_of(const Model& model) {
  std::string text;
  const auto& units = model.unit_infos;
  for (size_t first = 0; first < units.size();) {
    size_t last = first;
    while (last + 1 < units.size() && units[last + 1].chunk == units[first].chunk) ++last;
    text += (text.empty() ? "" : "; ") + units[first].name;
    if (last > first) text += " to " + units[last].name;
    first = last + 1;
  }
  return text;
}

void print_stages(std::ostream& out, const PlannedRun& run) {
  out << "\npipeline\n  stage    parameters   predicted, MiB   sent, MiB   micro-batches open   "
         "units\n";
  const int ranks_per_stage = run.mesh.world_size() / run.num_stages();
  for (int stage = 0; stage < run.num_stages(); ++stage) {
    const PlannedRun one(run.config, run.mesh.world_size(), stage * ranks_per_stage);
    int64_t elements = 0;
    for (const Parameter* parameter : one.parameters)
      elements += parameter->value_placement.box.num_elements();
    out << std::fixed << std::setprecision(1) << std::setw(7) << stage << std::setw(14) << elements
        << std::setw(17) << static_cast<double>(one.plan.memory_bytes()) / kMiB << std::setw(12)
        << one.plan.wire_bytes_per_step() / kMiB << std::setw(21) << max_open(one.actions())
        << "   " << units_of(one.model) << "\n";
  }
}

}  // namespace

void print_pipeline(std::ostream& out, const PlannedRun& run,
                    const std::filesystem::path& picture) {
  if (run.num_stages() == 1) {
    if (!picture.empty())
      throw ConfigError(
          message("--schedule ", picture.string(), ": there is no pipeline to draw; ",
                  "set mesh.pipeline, with a strategy that splits the depth, or leave ", "it out"));
    return;
  }
  print_stages(out, run);
  const Timeline timeline =
      simulate(run.schedule, run.num_chunks(), static_cast<int>(run.num_micro_batches));
  double end = 0;
  for (const auto& spans : timeline) end = std::max(end, spans.back().end);
  out << "\nschedule (F forward, B backward, I its input part, W its weight part; all three take "
         "equally long): bubble "
      << std::setprecision(3) << bubble_fraction(timeline) << "\n";
  if (end <= kWidestSchedule)
    out << draw_text(timeline);
  else
    out << "  " << end << " units of time, too wide to print; --schedule FILE draws it\n";
  if (picture.empty()) return;
  std::ofstream file(picture);
  file << draw_svg(timeline);
  file.close();
  if (!file)
    throw ConfigError(message("--schedule ", picture.string(),
                              ": can't be written; give a file in ",
                              "a folder that can be written"));
}

void print_balance(std::ostream& out, const PlannedRun& run, const std::vector<double>& unit_ms) {
  std::vector<double> stages(run.num_stages(), 0.0);
  for (size_t unit = 0; unit < unit_ms.size(); ++unit)
    stages[run.chunk_of_unit[unit] % run.num_stages()] += unit_ms[unit];
  double sum = 0, largest = 0;
  out << "  stages       " << std::fixed << std::setprecision(1);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    out << (stage ? ", " : "") << stage << ": " << stages[stage] << " ms";
    sum += stages[stage];
    largest = std::max(largest, stages[stage]);
  }
  const double mean = sum / static_cast<double>(stages.size());
  out << " of computing a step; the largest is " << 100 * (largest / mean - 1)
      << " % above the mean; balanced: units = [";
  const std::vector<int> counts = balance(unit_ms, run.num_chunks());
  for (size_t chunk = 0; chunk < counts.size(); ++chunk)
    out << (chunk ? ", " : "") << counts[chunk];
  out << "]\n" << std::flush;
}

}  // namespace cleave
