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

  int64_t elements() const { return sum(counts); }  // of all blocks
  Signature signature() const { return {op, dtype, reduction, root, elements()}; }
};

}  // namespace cleave::mpi
