// Where the elements of a bucket lie on the wire: for each rank a chunk of scales and bytes. Pure.
//
// Blocks are counted from the first element of each parameter, and of an all_reduce the ranks'
// shares are cut from each parameter alone. So what happens to a parameter does not depend on its
// neighbours in the bucket: ranks of other axes that hold equal copies of it get equal bits.
#pragma once

#include <cstdint>
#include <vector>

#include "cleave/gradient_exchange.h"

namespace cleave {

/// Consecutive elements of one parameter that go to one rank.
struct WireRun {
  int rank;
  int64_t first;        ///< element of the parameter
  int64_t elements;     ///< at least 1
  int64_t scales;       ///< byte in the rank's chunk, of the first block's float32 scale
  int64_t values;       ///< and of the first element's byte
  int64_t block_begin;  ///< reduce_scatter: its first element in the rank's block of the part

  int64_t first_block(int64_t block) const { return first / block; }
  int64_t num_blocks(int64_t block) const {
    return (first + elements - 1) / block - first / block + 1;
  }
};

struct WireSlice {
  size_t part;
  BucketSlice place;          ///< in the part
  int64_t residual_begin;     ///< first element in the bucket's residual
  std::vector<WireRun> runs;  ///< ascending, together all of the parameter
};

struct WireLayout {
  ExchangeMode mode;
  int64_t block;                      ///< elements of a full block
  std::vector<WireSlice> slices;      ///< none without elements
  std::vector<int64_t> chunk_bytes;   ///< by rank, multiples of 16
  std::vector<int64_t> chunk_begins;  ///< in a buffer of all chunks
  int64_t total_bytes = 0;            ///< of all chunks
  int64_t elements = 0;               ///< of all slices: those of the residual

  WireLayout(const GradientBucket& bucket, int ranks, int64_t block_elements);
};

}  // namespace cleave
