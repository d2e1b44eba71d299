// What the host walks: a unit maps one activation to one.
#pragma once

#include <ATen/core/Tensor.h>

#include "cleave/ops.h"
#include "cleave/parameter.h"

namespace cleave {

/// What the units of one micro-batch share. B = micro_batch_size, T = sequence_length.
struct MicroBatch {
  int index;           ///< in the step
  at::Tensor tokens;   ///< (B, T) int64
  at::Tensor targets;  ///< (B, T) int64
  LossSink loss;
};

class Unit {
 public:
  virtual ~Unit() = default;
  /// The first unit gets a tensor without content that requires gradients and reads
  /// `micro_batch.tokens`; the last returns a scalar (Ops::cross_entropy).
  virtual at::Tensor forward(Ops& ops, const at::Tensor& input, const MicroBatch& micro_batch) = 0;

  UnitInfo info;
};

}  // namespace cleave
