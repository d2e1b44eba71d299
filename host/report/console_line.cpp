#include "console_line.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

namespace cleave {
namespace {

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  const auto total = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  const int64_t hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  if (hours > 0) return fmt::format("{}h{:02}m", hours, minutes);
  if (minutes > 0) return fmt::format("{}m{:02}s", minutes, rest);
  return fmt::format("{}s", rest);
}

/// Small models reach less than 0.01 TFLOP/s; they keep three digits.
std::string format_tflops(double tflops) {
  return tflops >= 1 ? fmt::format("{:.2f}", tflops) : fmt::format("{:.3g}", tflops);
}

class Line {
 public:
  explicit Line(ConsoleStyle style) : style_(style) {}

  void field(const char* ansi_colour, const std::string& text) {
    if (!text_.empty()) text_ += "  ";
    const bool coloured = style_ == ConsoleStyle::coloured;
    if (coloured) text_ += ansi_colour;
    text_ += text;
    if (coloured) text_ += "\033[0m";
  }
  std::string take() { return std::move(text_); }

 private:
  ConsoleStyle style_;
  std::string text_;
};

}  // namespace

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

ConsoleStyle style_for(const std::ostream& console) {
  const bool is_output = console.rdbuf() == std::cout.rdbuf() && ::isatty(STDOUT_FILENO);
  const bool is_error = console.rdbuf() == std::cerr.rdbuf() && ::isatty(STDERR_FILENO);
  return is_output || is_error ? ConsoleStyle::coloured : ConsoleStyle::plain;
}

std::string console_line(const StepRecord& record, int64_t steps, double eta_s,
                         ConsoleStyle style) {
  const size_t width = fmt::formatted_size("{}", steps);
  const double percent = 100.0 * static_cast<double>(record.step) / static_cast<double>(steps);
  double memory_mib = 0;
  for (double mib : record.peak_memory_mib) memory_mib = std::max(memory_mib, mib);

  Line line(style);
  line.field("\033[31m",
             fmt::format("step: {:>{}}/{} ({:3.0f}%)", record.step, width, steps, percent));
  line.field("\033[32m", fmt::format("loss: {:8.5f}", record.loss));
  line.field("\033[33m", fmt::format("grad_norm: {:7.4f}", record.grad_norm));
  line.field("\033[36m", fmt::format("memory: {:>9}", format_mib(memory_mib)));
  line.field("\033[34m", fmt::format("tps: {:>7}", format_count(record.tokens_per_s)));
  line.field("\033[35m", fmt::format("tflops: {:>6}", format_tflops(record.tflops)));
  if (record.mfu) line.field("\033[95m", fmt::format("mfu: {:.1f}%", *record.mfu * 100));
  line.field("\033[90m", fmt::format("ETA: {}", format_duration(eta_s)));
  return line.take();
}

}  // namespace cleave
