// Each operation of the table as NCCL's calls.
#pragma once

#include <nccl.h>

#include "cleave/communicator.h"

namespace cleave::nccl {

/// Calls NCCL for `call` on `comm`, of which this is `rank` of `size`; never waits. What NCCL lacks
/// becomes a group: reduce_scatter v one ncclReduce for each root, all_gather v one ncclBroadcast
/// for each root, all_to_all sends and receives. A send or recv belongs to the pair's own
/// communicator, whose rank 0 sends to rank 1. Nothing is called where nothing moves.
ncclResult_t issue(const cleave_collective& call, int rank, int size, ncclComm_t comm,
                   cudaStream_t stream);

}  // namespace cleave::nccl
