// What the ranks of a node do together in the memory that they share.
#pragma once

#include <cstdint>
#include <vector>

#include "call.h"
#include "mailbox.h"

namespace cleave::mpi {

/// A collective of all ranks of a node, which are also all ranks of `counts`.
struct SharedCall {
  cleave_op op;
  cleave_dtype dtype;
  cleave_reduction reduction;
  int root;  // broadcast
  const void* send;
  void* recv;
  std::vector<int64_t> counts;  // of the blocks, one for each rank; broadcast: of the root's alone
  bool keeps_float32 = false;   // reduce_scatter of 16-bit floats: recv gets float32, not rounded

  cleave_dtype result_dtype() const { return keeps_float32 ? CLEAVE_FLOAT32 : dtype; }
  int64_t elements() const { return sum(counts); }  // of all blocks
  Signature signature() const { return {op, dtype, reduction, root, elements()}; }
};

}  // namespace cleave::mpi
