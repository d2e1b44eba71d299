#include "core/cross_entropy.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "cleave/weight_gradient.h"
#include "core/fused_math.h"

namespace cleave {

namespace {

// Large enough for fast matrix products, small enough that vocabularies of 150 k fit.
constexpr int64_t kChunkBytes = 64 << 20;
constexpr int64_t kMinChunkRows = 128;

at::Tensor logits_of(const at::Tensor& hidden, const Parameter& weight) {
  return at::mm(hidden, weight.value.t()).to(at::kFloat);
}

}  // namespace

int64_t cross_entropy_chunk_rows(int64_t vocab_size) {
  return std::max<int64_t>(kMinChunkRows, kChunkBytes / (4 * vocab_size));
}

at::Tensor cross_entropy_backward(const at::Tensor& hidden, Parameter& weight,
                                  const at::Tensor& targets, const LossSink& sink) {
  const int64_t n = hidden.size(0), step = cross_entropy_chunk_rows(weight.value.size(0));
  at::Tensor dhidden = at::empty_like(hidden);
  for (int64_t begin = 0; begin < n; begin += step) {
    const int64_t count = std::min(step, n - begin);
    const at::Tensor x = hidden.narrow(0, begin, count);
    at::Tensor logits = logits_of(x, weight);
    cross_entropy_gradient(logits, targets.narrow(0, begin, count), sink);
    const at::Tensor dlogits = logits.to(hidden.scalar_type());
    at::Tensor out = dhidden.narrow(0, begin, count);
    at::mm_out(out, dlogits, weight.value);
    add_product(weight, dlogits, x);
  }
  return dhidden;
}

void cross_entropy_forward(const at::Tensor& hidden, const Parameter& weight,
                           const at::Tensor& targets, const LossSink& sink) {
  const int64_t n = hidden.size(0), step = cross_entropy_chunk_rows(weight.value.size(0));
  for (int64_t begin = 0; begin < n; begin += step) {
    const int64_t count = std::min(step, n - begin);
    at::Tensor logits = logits_of(hidden.narrow(0, begin, count), weight);
    cross_entropy_gradient(logits, targets.narrow(0, begin, count), sink);
  }
}

}  // namespace cleave
