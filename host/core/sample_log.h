// Which samples each step read: a proof that none is lost or repeated when a run goes on elsewhere.
#pragma once

#include <cstdint>
#include <fstream>

#include "core/trainer.h"

namespace cleave {

/// {metrics.directory}/samples.rank<r>.jsonl, of one rank per slice of the batch (the first of its
/// tensor and pipeline group); lines {"step": 3, "sequences": [first, count], "samples": [...]}.
class SampleLog {
 public:
  /// Keeps an earlier run's lines of steps up to `resumed_step`. ConfigError when it can't write.
  SampleLog(const TrainerContext& context, int64_t resumed_step);
  /// After `step` (from 1). RuntimeError when the disk is full.
  void write(int64_t step);

 private:
  const TrainerContext& context_;
  std::filesystem::path path_;
  std::ofstream out_;
};

/// Whether this rank is one that has a log.
bool has_sample_log(const TrainerContext& context);

}  // namespace cleave
