// How `host bench` measures one op at one size.
#pragma once

#include "core/bench_data.h"
#include "core/bench_row.h"

namespace cleave {

/// Bytes of a rank's buffers for a row.
int64_t bench_row_bytes(cleave_op op, int64_t bytes, int ranks);

/// Where a row is measured.
struct BenchPlace {
  Comm& comm;     ///< nobody else uses it
  Comm& control;  ///< the same, for times and counts, which are CPU tensors
  at::Device device;
  /// Ranks whose next one, to which send_recv sends, is on another node; negative: not known.
  int64_t far_successors;
};

/// Collective over the place's communicators. `row` has its sizes; gets the rest. Every call
/// of every sample is on buffers of its own and checked. A sample starts behind a barrier; its time
/// on the slowest rank counts. `counts_network`: this rank speaks for its node.
void measure_row(BenchRow& row, cleave_op op, at::ScalarType dtype, const BenchPlace& place,
                 bool counts_network);

}  // namespace cleave
