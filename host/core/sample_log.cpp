#include "core/sample_log.h"

#include <cerrno>
#include <cstring>

#include "cleave/error.h"
#include "report/step_lines.h"

namespace cleave {

namespace {

constexpr char kPrefix[] = "samples.rank", kSuffix[] = ".jsonl";

// A run on more ranks may have left some that nobody writes now.
void keep_logs_until(const std::filesystem::path& directory, int64_t step) {
  std::error_code ignored;  // opening tells
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) keep_lines_until(entry.path(), step);
  }
}

}  // namespace

bool has_sample_log(const TrainerContext& context) {
  if (!context.config.metrics.samples) return false;
  for (const MeshAxis& axis : context.mesh.axes())
    if (axis.name != "data" && context.mesh.coordinate(context.rank, axis.name) != 0) return false;
  return true;
}

SampleLog::SampleLog(const TrainerContext& context, int64_t resumed_step)
    : context_(context),
      path_(context.config.metrics.directory / message(kPrefix, context.rank, kSuffix)) {
  std::error_code ignored;  // opening tells
  std::filesystem::create_directories(path_.parent_path(), ignored);
  keep_lines_until(path_, resumed_step);
  if (context.rank == 0) keep_logs_until(path_.parent_path(), resumed_step);
  out_.open(path_, std::ios::app);
  if (!out_)
    throw ConfigError(message(path_.string(), ": can't be written: ", std::strerror(errno),
                              "; give a folder that can be written as metrics.directory"));
}

void SampleLog::write(int64_t step) {
  const BatchSlice slice =
      batch_slice(step - 1, context_.config.train.global_batch_size,
                  context_.mesh.coordinate(context_.rank, "data"), context_.mesh.size("data"));
  out_ << "{\"step\":" << step << ",\"sequences\":[" << slice.first << "," << slice.count
       << "],\"samples\":[";
  for (int64_t i = 0; i < slice.count; ++i)
    out_ << (i ? "," : "") << context_.dataset.sample_index(slice.first + i);
  out_ << "]}\n" << std::flush;
  if (!out_)
    throw RuntimeError(message(path_.string(), ": step ", step, " can't be written: ",
                               std::strerror(errno), "; free space on that disk"));
}

}  // namespace cleave
