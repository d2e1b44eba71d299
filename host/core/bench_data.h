// Tensors of one benchmarked operation: what goes in, and whether exactly the right thing came out.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "cleave/comm.h"

namespace cleave {

/// Small integers in a fixed irregular order of period 1009, at a place of its own for each rank
/// and call. All of them, and their sums over the ranks, are exact in the dtype.
class BenchPattern {
 public:
  /// ConfigError: more ranks than the dtype can add up exactly.
  BenchPattern(at::ScalarType dtype, int ranks);

  /// One period: element i is the sum of what ranks first .. first + count - 1 have at `start` + i.
  at::Tensor period(int first, int count, int64_t start, int64_t call) const;

 private:
  int64_t value(int64_t place) const;
  at::ScalarType dtype_;
  int64_t num_values_;
};

/// One call of an operation on this rank. Its buffers come from `comm.allocate` and die before it.
class BenchCall {
 public:
  /// `elements` of the larger buffer (bench_elements); `number` tells calls apart.
  BenchCall(cleave_op op, int64_t elements, at::ScalarType dtype, int64_t number, Comm& comm,
            const BenchPattern& pattern, at::Device device);

  /// Puts the input where it belongs and rubbish where the result will be.
  void fill();
  /// The operation, to its end.
  void run(Comm& comm);
  /// On the host: elements of the result that differ from what they must be, bit by bit.
  int64_t count_wrong() const;

 private:
  cleave_op op_;
  at::Tensor send_;  // undefined: in place in recv_
  at::Tensor recv_;
  at::Tensor input_;                  // a period
  std::vector<at::Tensor> expected_;  // a period for each equal block of recv_
};

/// Bytes that a rank's buffers for one call take.
int64_t bench_buffer_bytes(cleave_op op, int64_t bytes, int ranks);

}  // namespace cleave
