// This rank's part of a global batch, as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "cleave/mesh.h"
#include "config/run_config.h"
#include "data/dataset.h"

namespace cleave {

/// M micro-batches of B sequences of T tokens each.
struct Batch {
  at::Tensor tokens;         ///< (M, B, T) int64
  at::Tensor targets;        ///< (M, B, T) int64
  at::Tensor valid_targets;  ///< int64 scalar: targets that count in the loss, on this rank
};

/// Reads this data rank's contiguous slice of global batch `step` (from 0).
Batch read_batch(const Dataset& dataset, const RunConfig& config, const Mesh& mesh, int rank,
                 int64_t step, at::Device device);

}  // namespace cleave
