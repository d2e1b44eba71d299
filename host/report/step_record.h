// What a step reports, the same numbers for metrics.jsonl, console, TensorBoard and the summary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// Tensor bytes of one category (cleave/memory.h).
struct CategoryMemory {
  std::string category;
  std::vector<double> mib;  ///< peak so far, one entry per rank
};

struct StepRecord {
  int64_t step;  ///< from 1
  double loss;
  double grad_norm;  ///< before clipping
  double lr;
  int64_t valid_tokens;
  double step_ms;
  double tokens_per_s;                  ///< global batch x sequence length / step time
  double exposed_communication_ms;      ///< the largest rank's
  double data_ms;                       ///< the largest rank's
  std::vector<double> peak_memory_mib;  ///< peak tensor bytes, one entry per rank
  std::vector<CategoryMemory> memory_mib;
  std::vector<double> resident_mib;  ///< one entry per rank
  double wire_bytes;                 ///< sent by this step, the largest rank's
  double tflops;                     ///< of all ranks together
  /// After the step, while a checkpoint was begun or written; rank 0's.
  std::optional<double> checkpoint_stall_ms;
  std::optional<double> mfu;
  std::optional<double> bubble_fraction;
};

struct PredictedMemory {
  std::string category;
  double mib;  ///< of rank 0
};

/// What stays the same over a run, for header and summary.
struct RunFacts {
  int64_t steps;
  int64_t tokens_per_step;
  int world_size;
  int64_t num_parameters;
  double predicted_wire_bytes_per_step;
  std::vector<PredictedMemory> predicted_memory;
  double predicted_memory_mib;  ///< of all categories together, on rank 0
  int64_t resumed_step = 0;     ///< that the run goes on from
};

}  // namespace cleave
