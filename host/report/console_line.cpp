#include "console_line.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace cleave {
namespace {

/// Small models reach less than 0.01 TFLOP/s; they keep three digits.
std::string format_tflops(double tflops) {
  return tflops >= 1 ? fmt::format("{:.2f}", tflops) : fmt::format("{:.3g}", tflops);
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  const auto total = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  const int64_t hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  if (hours > 0) return fmt::format("{}h{:02}m", hours, minutes);
  if (minutes > 0) return fmt::format("{}m{:02}s", minutes, rest);
  return fmt::format("{}s", rest);
}

std::string format_mib(double mib) {
  return mib >= 1024 ? fmt::format("{:.2f} GiB", mib / 1024) : fmt::format("{:.1f} MiB", mib);
}

std::string format_count(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const std::string digits = fmt::format("{:.0f}", std::abs(value));
  std::string text = value < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// No colours: under mpirun the output passes through a terminal of its own, so a file would get
// them.
std::string console_line(const StepRecord& record, int64_t steps, double eta_s) {
  const size_t width = fmt::formatted_size("{}", steps);
  const double percent = 100.0 * static_cast<double>(record.step) / static_cast<double>(steps);
  double memory_mib = 0;
  for (double mib : record.peak_memory_mib) memory_mib = std::max(memory_mib, mib);
  return fmt::format(
      "step: {:>{}}/{} ({:3.0f}%)  loss: {:8.5f}  grad_norm: {:7.4f}  memory: {:>9}  tps: {:>7}  "
      "tflops: {:>6}{}  ETA: {}",
      record.step, width, steps, percent, record.loss, record.grad_norm, format_mib(memory_mib),
      format_count(record.tokens_per_s), format_tflops(record.tflops),
      record.mfu ? fmt::format("  mfu: {:.1f}%", *record.mfu * 100) : "", format_duration(eta_s));
}

}  // namespace cleave
