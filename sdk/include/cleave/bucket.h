// Flat gradient buffers, filled in backward order and reduced by one collective each.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "cleave/comm.h"
#include "cleave/parameter.h"

namespace cleave {

/// Slices start on 64 bytes (16 float32): aligned vector loads, no false sharing between ranks.
inline constexpr int64_t kSliceAlignment = 16;

struct BucketSlice {
  Parameter* parameter;
  int64_t begin;     ///< first element in the bucket
  int64_t elements;  ///< without padding
};

struct BucketLayout {
  std::vector<BucketSlice> slices;  ///< in the order given
  int64_t elements = 0;             ///< with padding
};

/// Cuts `order` at parameter boundaries into buckets of at most `bucket_bytes` of float32 (one
/// larger parameter gets a bucket of its own). Pure. Sizes are those of the values' boxes.
std::vector<BucketLayout> make_buckets(const std::vector<Parameter*>& order, int64_t bucket_bytes);

/// Makes `member` of each slice's parameter a view of `flat`, shaped as the value on this rank.
void bind_slices(const BucketLayout& layout, const at::Tensor& flat, at::Tensor Parameter::*member);

/// Allocates a bucket from `comm`'s memory, zeroed (padding stays zero), and makes
/// Parameter::gradient of each slice a view of it.
at::Tensor allocate_bucket(const BucketLayout& layout, Comm& comm, at::Device device);

}  // namespace cleave
