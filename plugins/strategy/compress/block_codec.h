// Gradients to bytes and back, bucket by bucket. `wire` (the chunks of all owners) and `received`
// are flat uint8 tensors; gradients are one float32 tensor for each part of the bucket; `residual`
// is flat, float32, or undefined.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "wire_layout.h"

namespace cleave {

struct BlockCodec {
  /// The chunks of `gradients` + residual that a rank of the column quantises; there the residual
  /// becomes what they don't say.
  void (*encode)(const WireLayout& layout, int column, std::span<const at::Tensor> gradients,
                 const at::Tensor& residual, const at::Tensor& wire);
  /// `received`: the owner's chunk from each rank of its column. Their sum, in rank order, to the
  /// owner's elements of `outputs`: of all_reduce where they are, of reduce_scatter its block.
  void (*sum)(const WireLayout& layout, int owner, const at::Tensor& received,
              std::span<const at::Tensor> outputs);
  /// all_reduce: the owner's chunk of the sums; the residual takes up what it doesn't say.
  void (*encode_sum)(const WireLayout& layout, int owner, std::span<const at::Tensor> sums,
                     const at::Tensor& residual, const at::Tensor& wire);
  /// all_reduce: all elements from all owners' chunks.
  void (*decode)(const WireLayout& layout, const at::Tensor& wire,
                 std::span<const at::Tensor> outputs);
};

/// Loops over memory.
extern const BlockCodec kCpuCodec;
/// By tensor operations, for any device; the same bits.
extern const BlockCodec kTensorCodec;

}  // namespace cleave
