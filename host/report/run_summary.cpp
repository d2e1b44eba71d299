#include "run_summary.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "console_line.h"

namespace cleave {
namespace {

void raise_to(std::vector<double>& highest, const std::vector<double>& values) {
  highest.resize(std::max(highest.size(), values.size()), 0.0);
  for (size_t i = 0; i < values.size(); ++i) highest[i] = std::max(highest[i], values[i]);
}

/// "largest 812.3 MiB on rank 3, evenness 0.97 (smallest / largest of 8 ranks)"
std::string over_ranks(const std::vector<double>& mib) {
  const auto [smallest, largest] = std::minmax_element(mib.begin(), mib.end());
  std::string text = fmt::format("largest {} on rank {}", format_mib(*largest),
                                 std::distance(mib.begin(), largest));
  if (mib.size() > 1 && *largest > 0) {
    text += fmt::format(", evenness {:.2f} (smallest / largest of {} ranks)", *smallest / *largest,
                        mib.size());
  }
  return text;
}

std::string line(const char* label, const std::string& text) {
  return fmt::format("  {:<12} {}\n", label, text);
}

}  // namespace

double percentile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - std::floor(position)) * (values[above] - values[below]);
}

void RunSummary::add(const StepRecord& record) {
  if (record.checkpoint_stall_ms) stall_ms_.push_back(*record.checkpoint_stall_ms);
  if (sums_.steps == 0) {
    first_step_ms_ = record.step_ms;
    first_step_only_ = true;
  } else if (first_step_only_) {
    // the first step pays for warm-up: it counts only as long as there is no other
    sums_ = {};
    step_ms_.clear();
    first_step_only_ = false;
  }
  ++sums_.steps;
  sums_.step_ms += record.step_ms;
  sums_.exposed_ms += record.exposed_communication_ms;
  sums_.data_ms += record.data_ms;
  sums_.bubble_ms += record.bubble_fraction.value_or(0) * record.step_ms;
  sums_.wire_bytes += record.wire_bytes;
  step_ms_.push_back(record.step_ms);
  raise_to(peak_memory_mib_, record.peak_memory_mib);
  memory_mib_ = record.memory_mib;  // peaks so far already
  raise_to(resident_mib_, record.resident_mib);
}

double RunSummary::mean_step_ms() const {
  return sums_.steps == 0 ? 0 : sums_.step_ms / static_cast<double>(sums_.steps);
}

std::string RunSummary::to_string() const {
  if (sums_.steps == 0) return "summary: no step was run\n";
  return "summary\n" + step_time_lines() + memory_lines() + wire_line() + stall_line() +
         verdict_line();
}

std::string RunSummary::step_time_lines() const {
  const double median_ms = percentile(step_ms_, 0.5);
  const std::string note = first_step_only_
                               ? "the only step, with warm-up"
                               : fmt::format("first step, {:.1f} ms, not counted", first_step_ms_);
  return line("step time",
              fmt::format("p50 {:.1f} ms, p95 {:.1f} ms, max {:.1f} ms ({})", median_ms,
                          percentile(step_ms_, 0.95), percentile(step_ms_, 1.0), note)) +
         line("tokens/s",
              format_count(static_cast<double>(facts_.tokens_per_step) * 1000 / median_ms) +
                  " (median)");
}

// Categories need not be fullest at the same moment, so the total is less than their sum.
std::string RunSummary::memory_table() const {
  const auto row = [](const std::string& name, double predicted_mib,
                      const std::vector<double>& mib) {
    const auto [smallest, largest] = std::minmax_element(mib.begin(), mib.end());
    return line("", fmt::format("{:<13} {:>11.2f} {:>13.2f} {:>13.2f}", name, predicted_mib,
                                *smallest, *largest));
  };
  std::string text = line("memory", fmt::format("{:<13} {:>11} {:>13} {:>13}", "MiB of a rank",
                                                "predicted", "measured min", "measured max"));
  for (const CategoryMemory& entry : memory_mib_) {
    const auto predicted =
        std::find_if(facts_.predicted_memory.begin(), facts_.predicted_memory.end(),
                     [&](const PredictedMemory& item) { return item.category == entry.category; });
    text += row(entry.category, predicted == facts_.predicted_memory.end() ? 0 : predicted->mib,
                entry.mib);
  }
  return text + row("total", facts_.predicted_memory_mib, peak_memory_mib_);
}

std::string RunSummary::memory_lines() const {
  std::string text;
  if (!peak_memory_mib_.empty()) text += memory_table() + line("", over_ranks(peak_memory_mib_));
  if (!resident_mib_.empty()) text += line("resident", over_ranks(resident_mib_));
  return text;
}

std::string RunSummary::wire_line() const {
  const double measured = sums_.wire_bytes / static_cast<double>(sums_.steps);
  const double predicted = facts_.predicted_wire_bytes_per_step;
  std::string text = fmt::format("predicted {}, measured {} bytes a step and rank",
                                 format_count(predicted), format_count(measured));
  if (predicted > 0) text += fmt::format(" ({:+.1f} %)", 100 * (measured / predicted - 1));
  return line("wire", text);
}

std::string RunSummary::stall_line() const {
  if (stall_ms_.empty()) return "";
  double total = 0;
  for (const double ms : stall_ms_) total += ms;
  return line("checkpoints", fmt::format("stalled {:.1f} ms after {} steps, at most {:.1f} ms",
                                         total, stall_ms_.size(), percentile(stall_ms_, 1.0)));
}

std::string RunSummary::verdict_line() const {
  struct Share {
    const char* what;
    double ms;
  };
  const double waiting_ms = sums_.exposed_ms + sums_.data_ms + sums_.bubble_ms;
  std::vector<Share> shares = {{"compute", std::max(0.0, sums_.step_ms - waiting_ms)},
                               {"exposed communication", sums_.exposed_ms},
                               {"data", sums_.data_ms}};
  if (sums_.bubble_ms > 0) shares.push_back({"bubble", sums_.bubble_ms});
  std::stable_sort(shares.begin(), shares.end(),
                   [](const Share& a, const Share& b) { return a.ms > b.ms; });
  std::string text;
  for (const Share& share : shares) {
    const double percent = 100 * share.ms / sums_.step_ms;
    text += text.empty() ? fmt::format("bound by {} ({:.1f} % of the step)", share.what, percent)
                         : fmt::format(", {} {:.1f} %", share.what, percent);
  }
  return line("verdict", text);
}

}  // namespace cleave
