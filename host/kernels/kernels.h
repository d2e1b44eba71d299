// Fused float32 loops for the CPU: one pass over memory where separate ATen calls take four to
// eight. Compiled once per instruction set, chosen at run time. Dense row-major buffers unless
// strides are given; the caller splits rows over threads. Rounding differs between instruction sets
// by 1e-7.
#pragma once

#include <cstdint>

namespace cleave {

/// Extents and element strides of a (batch, token, head, dim) tensor whose last dim is dense.
struct HeadLayout {
  int64_t tokens, heads, half;                      ///< dim = 2 half
  int64_t batch_stride, token_stride, head_stride;  ///< of the input; the output is dense
};

struct Kernels {
  const char* name;  ///< "avx512", "avx2", "baseline"

  /// y = x * scale * weight with scale = 1 / sqrt(mean(x^2) + eps) per row of `n`; keeps scale
  /// (rows).
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t rows, int64_t n,
                   float* y, float* scale);
  /// dx, and weight_gradient (n) += sum over rows of dy * x * scale.
  void (*rms_norm_backward)(const float* dy, const float* x, const float* weight,
                            const float* scale, int64_t rows, int64_t n, float* dx,
                            float* weight_gradient);
  /// y = gate * sigmoid(gate) * up
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* y);
  void (*swiglu_backward)(const float* dy, const float* gate, const float* up, int64_t n,
                          float* dgate, float* dup);
  /// Half-split rotation of rows [begin, end) of batch x tokens, by +phase or, for sign = -1, back.
  /// cos, sin (tokens, half).
  void (*rotate)(const float* x, const HeadLayout& layout, const float* cos, const float* sin,
                 float sign, int64_t begin, int64_t end, float* y);
  /// Per row of `n` logits: replaces them with scale * (softmax - one_hot(target)) and returns the
  /// sum of log(sum(exp)) - logit[target]; rows whose target is `ignore` become 0 and add nothing.
  double (*cross_entropy)(float* logits, const int64_t* targets, int64_t ignore, float scale,
                          int64_t rows, int64_t n);
  /// Rows [first, first + rows) of a causal score matrix, `stride` apart: row t keeps its columns
  /// 0..t, exponentiated and divided by their sum, and gets 0 from there to `n`. log_sums[i] =
  /// log(sum(exp)).
  void (*causal_softmax)(float* scores, int64_t stride, int64_t first, int64_t rows, int64_t n,
                         float* log_sums);
  /// The same probabilities again from log_sums.
  void (*causal_softmax_again)(float* scores, int64_t stride, int64_t first, int64_t rows,
                               int64_t n, const float* log_sums);
  /// dprobabilities := probabilities * (dprobabilities - along[i]) * scale, row by row.
  void (*softmax_backward)(const float* probabilities, float* dprobabilities, int64_t stride,
                           int64_t rows, int64_t n, const float* along, float scale);
  /// Sum of squares in float64.
  double (*square_sum)(const float* x, int64_t n);
};

/// The fastest set that this processor runs.
const Kernels& kernels();

}  // namespace cleave
