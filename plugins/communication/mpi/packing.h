// Floats in fewer bytes, and the same floats back: neighbours in a gradient or a weight have alike
// magnitudes, so three bits say which of seven exponents below the block's largest a value has.
// (Only exponents have structure; sign and mantissa travel as they are.)
//
// A block is kPackingBlock values: a byte for its largest exponent, a byte for the number of
// exceptions, three bits a value, the other 24 (float32) or 8 bits (bfloat16) a value, and a byte
// for the exponent of each exception: one more than six binary places below the largest, zeros for
// instance. Where that would not be shorter, the values themselves. So a value takes
//   float32   27 of 32 bits + 1/16 + 8 an exception; at most 32 + 1/16
//   bfloat16  11 of 16 bits + 1/16 + 8 an exception; at most 16 + 1/16
// Values behind the last full block travel as they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cleave/communicator.h"

namespace cleave::mpi {

constexpr int64_t kPackingBlock = 256;

/// float32 and bfloat16.
bool can_pack(cleave_dtype dtype);
/// What `pack` may write for `bytes` of a dtype that can be packed.
int64_t max_packed_bytes(cleave_dtype dtype, int64_t bytes);
/// `bytes` of values, any bits; returns the bytes written to `packed`.
int64_t pack(cleave_dtype dtype, const void* values, int64_t bytes, std::byte* packed);
/// Returns whether `packed` holds `bytes` of values, no more and no less.
bool unpack(cleave_dtype dtype, const std::byte* packed, int64_t packed_bytes, void* values,
            int64_t bytes);

}  // namespace cleave::mpi
