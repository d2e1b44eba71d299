#include "metrics_file.h"

#include <spdlog/fmt/fmt.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <string_view>

#include "cleave/error.h"
#include "step_lines.h"

namespace cleave {
namespace {

/// fmt ignores the locale, so the decimal point is always a point.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.17g}", value) : "null";
}

std::string array(const std::vector<double>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    text += number(values[i]);
  }
  return text + "]";
}

class ObjectWriter {
 public:
  void add(std::string_view key, const std::string& value) {
    text_ += text_.size() == 1 ? "\"" : ",\"";
    text_ += key;
    text_ += "\":";
    text_ += value;
  }
  std::string finish() { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

std::string by_category(const std::vector<CategoryMemory>& memory) {
  ObjectWriter object;
  for (const CategoryMemory& entry : memory) object.add(entry.category, array(entry.mib));
  return object.finish();
}

}  // namespace

std::string to_json(const StepRecord& record) {
  ObjectWriter object;
  object.add("step", fmt::format("{}", record.step));
  object.add("loss", number(record.loss));
  object.add("grad_norm", number(record.grad_norm));
  object.add("lr", number(record.lr));
  object.add("valid_tokens", fmt::format("{}", record.valid_tokens));
  object.add("step_ms", number(record.step_ms));
  object.add("tokens_per_s", number(record.tokens_per_s));
  object.add("exposed_communication_ms", number(record.exposed_communication_ms));
  object.add("data_ms", number(record.data_ms));
  object.add("peak_memory_mib", array(record.peak_memory_mib));
  object.add("memory_mib", by_category(record.memory_mib));
  object.add("resident_mib", array(record.resident_mib));
  object.add("wire_bytes", number(record.wire_bytes));
  object.add("tflops", number(record.tflops));
  if (record.checkpoint_stall_ms)
    object.add("checkpoint_stall_ms", number(*record.checkpoint_stall_ms));
  if (record.mfu) object.add("mfu", number(*record.mfu));
  if (record.bubble_fraction) object.add("bubble_fraction", number(*record.bubble_fraction));
  return object.finish();
}

MetricsFile::MetricsFile(const std::filesystem::path& file, int64_t resumed_step) : file_(file) {
  keep_lines_until(file, resumed_step);
  out_.open(file, std::ios::app);
  if (!out_) {
    throw ConfigError(message(file.string(), ": can't be created: ", std::strerror(errno),
                              "; give a folder that can be written as metrics.directory"));
  }
}

void MetricsFile::write(const StepRecord& record) {
  out_ << to_json(record) << '\n' << std::flush;
  if (!out_) {
    throw RuntimeError(message(file_.string(), ": step ", record.step, " can't be written: ",
                               std::strerror(errno), "; free space on that disk"));
  }
}

}  // namespace cleave
