#include "core/attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/gemm.h"
#include "kernels/kernels.h"

namespace cleave {

namespace {

// Query rows of a block: scores of 64 x 2048 floats are half a megabyte, which stays in cache.
constexpr int64_t kBlockRows = 64;

struct Extents {
  int64_t B, T, H, K, D;
  float scale;

  explicit Extents(const AttentionInput& x)
      : B(x.q.size(0)),
        T(x.q.size(1)),
        H(x.q.size(2)),
        K(x.k.size(2)),
        D(x.q.size(3)),
        scale(1.0f / std::sqrt(static_cast<float>(D))) {}

  int64_t query(int64_t b, int64_t h, int64_t t) const { return ((b * T + t) * H + h) * D; }
  int64_t key(int64_t b, int64_t g, int64_t t) const { return ((b * T + t) * K + g) * D; }
};

// Calls block(first row, rows, keys that they see) over the T rows.
template <typename Block>
void for_each_block(int64_t T, const Block& block) {
  for (int64_t first = 0; first < T; first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, T - first);
    block(first, rows, first + rows);
  }
}

}  // namespace

AttentionOutput attention_forward(const AttentionInput& input) {
  const Extents x(input);
  AttentionOutput output{at::empty_like(input.q), at::empty({x.B, x.H, x.T}, input.q.options())};
  const float* q = input.q.const_data_ptr<float>();
  const float* k = input.k.const_data_ptr<float>();
  const float* v = input.v.const_data_ptr<float>();
  float* y = output.y.data_ptr<float>();
  float* log_sums = output.log_sums.data_ptr<float>();
  const int64_t q_stride = x.H * x.D, k_stride = x.K * x.D;
  at::parallel_for(0, x.B * x.H, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(kBlockRows * x.T);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / x.H, h = i % x.H, g = h / (x.H / x.K);
      const GemmOperand keys{k + x.key(b, g, 0), k_stride, true};
      const GemmOperand values{v + x.key(b, g, 0), k_stride};
      for_each_block(x.T, [&](int64_t first, int64_t rows, int64_t n) {
        const GemmOperand queries{q + x.query(b, h, first), q_stride};
        gemm(queries, keys, scores.data(), x.T, rows, n, x.D, x.scale, 0);
        kernels().causal_softmax(scores.data(), x.T, first, rows, n, log_sums + i * x.T + first);
        gemm({scores.data(), x.T}, values, y + x.query(b, h, first), q_stride, rows, x.D, n, 1, 0);
      });
    }
  });
  return output;
}

AttentionInput attention_backward(const AttentionInput& input, const AttentionOutput& output,
                                  const at::Tensor& dy) {
  const Extents x(input);
  AttentionInput gradient{at::empty_like(input.q), at::zeros_like(input.k),
                          at::zeros_like(input.v)};
  // what softmax's backward subtracts: sum over D of dy * y
  const at::Tensor along = at::mul(dy, output.y).sum(-1).transpose(1, 2).contiguous();  // (B, H, T)
  const float* q = input.q.const_data_ptr<float>();
  const float* k = input.k.const_data_ptr<float>();
  const float* v = input.v.const_data_ptr<float>();
  const float* d = dy.const_data_ptr<float>();
  const float* log_sums = output.log_sums.const_data_ptr<float>();
  const float* subtract = along.const_data_ptr<float>();
  float* dq = gradient.q.data_ptr<float>();
  float* dk = gradient.k.data_ptr<float>();
  float* dv = gradient.v.data_ptr<float>();
  const int64_t q_stride = x.H * x.D, k_stride = x.K * x.D, group = x.H / x.K;
  // a thread owns a key/value head, so that the sums over its query heads have one order
  at::parallel_for(0, x.B * x.K, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> p(kBlockRows * x.T), dp(kBlockRows * x.T);
    for (int64_t i = begin * group; i < end * group; ++i) {
      const int64_t b = i / x.H, h = i % x.H, at_keys = x.key(b, h / group, 0);
      const GemmOperand keys{k + at_keys, k_stride}, keys_t{k + at_keys, k_stride, true};
      const GemmOperand values_t{v + at_keys, k_stride, true};
      for_each_block(x.T, [&](int64_t first, int64_t rows, int64_t n) {
        const int64_t at_queries = x.query(b, h, first), row = i * x.T + first;
        const GemmOperand queries{q + at_queries, q_stride}, upstream{d + at_queries, q_stride};
        const GemmOperand p_t{p.data(), x.T, true}, dp_t{dp.data(), x.T, true};
        gemm(queries, keys_t, p.data(), x.T, rows, n, x.D, x.scale, 0);
        kernels().causal_softmax_again(p.data(), x.T, first, rows, n, log_sums + row);
        gemm(p_t, upstream, dv + at_keys, k_stride, n, x.D, rows, 1, 1);
        gemm(upstream, values_t, dp.data(), x.T, rows, n, x.D, 1, 0);
        kernels().softmax_backward(p.data(), dp.data(), x.T, rows, n, subtract + row, x.scale);
        gemm({dp.data(), x.T}, keys, dq + at_queries, q_stride, rows, x.D, n, 1, 0);
        gemm(dp_t, queries, dk + at_keys, k_stride, n, x.D, rows, 1, 1);
      });
    }
  });
  return gradient;
}

}  // namespace cleave
