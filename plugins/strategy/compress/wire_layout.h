// Where the elements of a bucket lie on the wire: for each rank, their owner, a chunk of scales and
// bytes. Pure.
//
// Neighbouring ranks may have summed their gradients before (a machine's, `inner_ranks` of them).
// Such ranks share the sum's chunks: each sends those of the owners that have its own place in
// their machine, a column. Owners are numbered column by column, so that a column is in one piece.
//
// Blocks are counted from the first element of each parameter, and of an all_reduce the ranks'
// shares are cut from each parameter alone. So what happens to a parameter does not depend on its
// neighbours in the bucket: ranks of other axes that hold equal copies of it get equal bits.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "cleave/gradient_exchange.h"

namespace cleave {

/// Consecutive elements of one parameter that go to one rank.
struct WireRun {
  int owner;
  int64_t first;        ///< element of the parameter
  int64_t elements;     ///< at least 1
  int64_t scales;       ///< byte in the owner's chunk, of the first block's float32 scale
  int64_t values;       ///< and of the first element's byte
  int64_t block_begin;  ///< reduce_scatter: its first element in the owner's block of the part

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
  int inner_ranks;                    ///< that have equal gradients: 1, or those of a machine
  std::vector<int64_t> chunk_bytes;   ///< by owner, multiples of 16
  std::vector<int64_t> chunk_begins;  ///< in a buffer of all chunks
  int64_t total_bytes = 0;            ///< of all chunks
  int64_t elements = 0;               ///< of all slices: those of the residual

  WireLayout(const GradientBucket& bucket, int ranks, int64_t block_elements, int inner_ranks = 1);

  /// Ranks of a column, that is, machines: so many chunks an owner gets.
  int outer_ranks() const { return static_cast<int>(std::ssize(chunk_bytes)) / inner_ranks; }
  int owner_of(int rank) const { return rank % inner_ranks * outer_ranks() + rank / inner_ranks; }
  int column_of(int owner) const { return owner / outer_ranks(); }
  /// Whether the column's ranks quantise the owner's chunk; why it depends: int8_exchange.h.
  bool is_quantised_by(int column, int owner) const {
    return mode == ExchangeMode::reduce_scatter || column_of(owner) == column;
  }
  /// Of a column's owners, or from where on in a buffer of all chunks.
  std::vector<int64_t> column_chunks(int column) const;
  int64_t column_begin(int column) const { return chunk_begins[column * outer_ranks()]; }
  int64_t column_bytes(int column) const;
};

}  // namespace cleave
