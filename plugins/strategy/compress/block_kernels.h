// A block's loops on the CPU. A block is `n` elements that share a scale: value = scale x byte,
// with bytes from -127 to 127 and scale = largest magnitude / 127.
#pragma once

#include <cstdint>

namespace cleave {

/// The scale of x + residual (nullptr: of x). 0 where all of the block is too small for one; not
/// finite where an element is.
float block_scale(const float* x, const float* residual, int64_t n);

/// bytes = x + residual over `scale`, rounded to nearest even; the residual (nullptr: none) becomes
/// what they don't say. Where the scale is not finite the values become that, and the residual 0.
void encode_block(const float* x, float* residual, float scale, int64_t n, int8_t* bytes);

/// The same of x alone; what the bytes don't say is added to the residual.
void encode_block_again(const float* x, float* residual, float scale, int64_t n, int8_t* bytes);

/// out = scale x bytes, or adds that to it.
void decode_block(const int8_t* bytes, float scale, int64_t n, float* out);
void add_block(const int8_t* bytes, float scale, int64_t n, float* out);

}  // namespace cleave
