#include "reporter.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>

#include "cleave/error.h"
#include "console_line.h"
#include "event_file.h"
#include "metrics_file.h"
#include "run_summary.h"

namespace cleave {
namespace {

std::filesystem::path created(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw ConfigError(message(directory.string(), ": can't be created: ", error.message(),
                              "; give a folder that can be written as metrics.directory"));
  }
  return directory;
}

double largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

std::vector<Scalar> scalars(const StepRecord& record) {
  std::vector<Scalar> result = {{"loss", record.loss},
                                {"grad_norm", record.grad_norm},
                                {"lr", record.lr},
                                {"tokens_per_s", record.tokens_per_s},
                                {"step_ms", record.step_ms},
                                {"exposed_communication_ms", record.exposed_communication_ms},
                                {"data_ms", record.data_ms},
                                {"peak_memory_mib", largest(record.peak_memory_mib)},
                                {"resident_mib", largest(record.resident_mib)},
                                {"tflops", record.tflops}};
  for (const CategoryMemory& entry : record.memory_mib)
    result.push_back({"memory_mib/" + entry.category, largest(entry.mib)});
  if (record.checkpoint_stall_ms)
    result.push_back({"checkpoint_stall_ms", *record.checkpoint_stall_ms});
  if (record.mfu) result.push_back({"mfu", *record.mfu});
  if (record.bubble_fraction) result.push_back({"bubble_fraction", *record.bubble_fraction});
  return result;
}

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

struct Reporter::State {
  State(const MetricsConfig& metrics, const RunFacts& run_facts, std::ostream& out)
      : config(metrics),
        facts(run_facts),
        console(out),
        file(created(metrics.directory) / "metrics.jsonl", run_facts.resumed_step),
        totals(run_facts) {
    if (metrics.tensorboard) events.emplace(metrics.directory);
  }

  MetricsConfig config;
  RunFacts facts;
  std::ostream& console;
  MetricsFile file;
  std::optional<EventFile> events;
  RunSummary totals;
  bool started = false;
};

Reporter::Reporter(const MetricsConfig& config, const RunFacts& facts, std::ostream& console)
    : state_(std::make_unique<State>(config, facts, console)) {}

Reporter::~Reporter() = default;

void Reporter::step(const StepRecord& record) {
  State& state = *state_;
  state.file.write(record);
  if (state.events) state.events->write(record.step, unix_seconds(), scalars(record));
  state.totals.add(record);

  const bool is_first = !state.started;
  state.started = true;
  const bool is_due = is_first || record.step == state.facts.steps ||
                      record.step % std::max<int64_t>(1, state.config.every_steps) == 0;
  if (!is_due) return;
  const auto steps_left = static_cast<double>(state.facts.steps - record.step);
  const double eta_s = steps_left * state.totals.mean_step_ms() / 1000;
  state.console << console_line(record, state.facts.steps, eta_s) << '\n' << std::flush;
}

void Reporter::stopped(int64_t step) {
  state_->console << "stopped by a signal after step " << step << " of " << state_->facts.steps
                  << "; start again to go on\n"
                  << std::flush;
}

void Reporter::summary() {
  state_->console << state_->totals.to_string() << std::flush;
}

}  // namespace cleave
