// Reads parts of a mapped tensor, and no more of the file than they need.
#pragma once

#include <cstdint>

#include "cleave/placement.h"
#include "huggingface/safetensors.h"

namespace cleave {

/// Converts `box` of `tensor`, which lies in `file`, to float32, row-major.
void read_box(const SafetensorsFile& file, const TensorView& tensor, const Box& box, float* out);

/// The elements first, first + 1, ..., first + count - 1 in row-major order.
void read_elements(const SafetensorsFile& file, const TensorView& tensor, int64_t first,
                   int64_t count, float* out);

}  // namespace cleave
