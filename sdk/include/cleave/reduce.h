// Reductions in host memory, shared by the communication plugins (no torch, no threads).
#pragma once

#include <cstdint>

#include "cleave/communicator.h"

namespace cleave {

/// Combines `elements` elements of `num_sources` >= 1 buffers in the order given and writes the
/// result to each of `num_targets` buffers. 16-bit floats are accumulated in float32 and rounded
/// once (to nearest even); integers wrap; max keeps NaN. A target may be one of the sources, but
/// buffers must not overlap otherwise.
void reduce_buffers(cleave_dtype dtype, cleave_reduction reduction, const void* const* sources,
                    int num_sources, void* const* targets, int num_targets, int64_t elements);

/// The same into one target of another type: 16-bit floats into float32, which is then the sum as
/// it was accumulated, or float32 into 16-bit floats, rounded. Sums that are formed in steps are so
/// rounded once.
void reduce_into(cleave_dtype result, void* target, cleave_dtype dtype, cleave_reduction reduction,
                 const void* const* sources, int num_sources, int64_t elements);

}  // namespace cleave
