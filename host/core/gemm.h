// One float32 matrix product on raw memory, without a tensor per call: small products in a loop
// spend as long in ATen's dispatch as in the arithmetic.
#pragma once

#include <cstdint>

namespace cleave {

/// A row-major matrix in memory, rows `stride` apart; transposed: the product sees its transpose.
struct GemmOperand {
  const float* data;
  int64_t stride;
  bool transposed = false;
};

/// Row-major c (m, n) = alpha a (m, k) b (k, n) + beta c.
void gemm(GemmOperand a, GemmOperand b, float* c, int64_t c_stride, int64_t m, int64_t n, int64_t k,
          float alpha, float beta);

}  // namespace cleave
