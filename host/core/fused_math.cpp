#include "core/fused_math.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <vector>

#include "kernels/kernels.h"

namespace cleave {

namespace {

bool use_kernels(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat;
}

// Parts are worth a thread from about 32 Ki elements.
constexpr int64_t kGrainElements = 1 << 15;
int64_t grain_rows(int64_t row_elements) {
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, row_elements));
}

// Rows summed into one partial weight gradient: fixed, so that the sum does not depend on threads.
constexpr int64_t kBlockRows = 64;

const float* data(const at::Tensor& x) {
  return x.const_data_ptr<float>();
}

}  // namespace

std::pair<at::Tensor, at::Tensor> rms_norm_forward(const at::Tensor& x, const at::Tensor& weight,
                                                   double eps) {
  const int64_t n = x.size(0), C = x.size(1);
  if (!use_kernels(x)) {
    const at::Tensor x32 = x.to(at::kFloat);
    const at::Tensor scale = x32.square().mean(-1).add_(eps).rsqrt_();
    return {(x32 * scale.unsqueeze(1)).to(x.scalar_type()).mul_(weight), scale};
  }
  const at::Tensor in = x.contiguous();
  at::Tensor y = at::empty_like(in), scale = at::empty({n}, in.options());
  float* out = y.data_ptr<float>();
  float* scales = scale.data_ptr<float>();
  at::parallel_for(0, n, grain_rows(C), [&](int64_t begin, int64_t end) {
    kernels().rms_norm(data(in) + begin * C, data(weight), static_cast<float>(eps), end - begin, C,
                       out + begin * C, scales + begin);
  });
  return {y, scale};
}

std::pair<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                    const at::Tensor& weight,
                                                    const at::Tensor& scale) {
  const int64_t n = x.size(0), C = x.size(1);
  if (!use_kernels(x)) {
    const at::Tensor dy32 = dy.to(at::kFloat), s = scale.unsqueeze(1);
    const at::Tensor normed = x.to(at::kFloat) * s;
    const at::Tensor dn = dy32 * weight.to(at::kFloat);
    const at::Tensor along = (dn * normed).mean(-1, true);  // the component that the norm removes
    const at::Tensor dx = dn.sub_(normed * along).mul_(s);
    return {dx.to(x.scalar_type()), (dy32 * normed).sum(0)};
  }
  const at::Tensor in = x.contiguous(), grad = dy.contiguous();
  const int64_t blocks = (n + kBlockRows - 1) / kBlockRows;
  at::Tensor dx = at::empty_like(in), partial = at::zeros({blocks, C}, in.options());
  float* out = dx.data_ptr<float>();
  float* sums = partial.data_ptr<float>();
  at::parallel_for(0, blocks, grain_rows(kBlockRows * C), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t row = block * kBlockRows, rows = std::min(kBlockRows, n - row);
      kernels().rms_norm_backward(data(grad) + row * C, data(in) + row * C, data(weight),
                                  data(scale) + row, rows, C, out + row * C, sums + block * C);
    }
  });
  return {dx, partial.sum(0)};
}

at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up) {
  if (!use_kernels(gate)) return at::silu(gate).mul_(up);
  const at::Tensor g = gate.contiguous(), u = up.contiguous();
  at::Tensor y = at::empty_like(g);
  float* out = y.data_ptr<float>();
  at::parallel_for(0, g.numel(), kGrainElements, [&](int64_t begin, int64_t end) {
    kernels().swiglu(data(g) + begin, data(u) + begin, end - begin, out + begin);
  });
  return y;
}

std::pair<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& dy, const at::Tensor& gate,
                                                  const at::Tensor& up) {
  if (!use_kernels(gate)) return {at::silu_backward(dy * up, gate), at::silu(gate).mul_(dy)};
  const at::Tensor d = dy.contiguous(), g = gate.contiguous(), u = up.contiguous();
  at::Tensor dgate = at::empty_like(g), dup = at::empty_like(u);
  float* out_gate = dgate.data_ptr<float>();
  float* out_up = dup.data_ptr<float>();
  at::parallel_for(0, g.numel(), kGrainElements, [&](int64_t begin, int64_t end) {
    kernels().swiglu_backward(data(d) + begin, data(g) + begin, data(u) + begin, end - begin,
                              out_gate + begin, out_up + begin);
  });
  return {dgate, dup};
}

at::Tensor rotate(const at::Tensor& x, const RotaryTable& rotary, bool inverse) {
  const int64_t B = x.size(0), T = x.size(1), H = x.size(2), half = x.size(3) / 2;
  const float sign = inverse ? -1.0f : 1.0f;
  if (use_kernels(x) && x.stride(3) == 1) {
    at::Tensor y = at::empty(x.sizes(), x.options());
    float* out = y.data_ptr<float>();
    const HeadLayout layout{T, H, half, x.stride(0), x.stride(1), x.stride(2)};
    at::parallel_for(0, B * T, grain_rows(2 * H * half), [&](int64_t begin, int64_t end) {
      kernels().rotate(data(x), layout, data(rotary.cos), data(rotary.sin), sign, begin, end, out);
    });
    return y;
  }
  const at::Tensor cos = rotary.cos.narrow(0, 0, T).unsqueeze(1);  // (T, 1, D/2)
  const at::Tensor sin = rotary.sin.narrow(0, 0, T).unsqueeze(1);
  const at::Tensor x1 = x.narrow(-1, 0, half).to(at::kFloat);
  const at::Tensor x2 = x.narrow(-1, half, half).to(at::kFloat);
  const at::Tensor y1 = at::mul(x1, cos).addcmul_(x2, sin, -sign);
  const at::Tensor y2 = at::mul(x2, cos).addcmul_(x1, sin, sign);
  return at::cat({y1, y2}, -1).to(x.scalar_type());
}

namespace {

void cross_entropy_kernels(at::Tensor& logits, const at::Tensor& targets, const LossSink& sink) {
  const int64_t n = logits.size(0), V = logits.size(1);
  const float scale = static_cast<float>(*sink.gradient_scale.const_data_ptr<double>());
  const at::Tensor ids = targets.contiguous();
  const int64_t blocks = (n + kBlockRows - 1) / kBlockRows;
  std::vector<double> losses(blocks);
  float* out = logits.data_ptr<float>();
  at::parallel_for(0, blocks, grain_rows(kBlockRows * V), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t row = block * kBlockRows, rows = std::min(kBlockRows, n - row);
      losses[block] = kernels().cross_entropy(out + row * V, ids.const_data_ptr<int64_t>() + row,
                                              sink.ignore_token, scale, rows, V);
    }
  });
  double* sum = sink.sum.data_ptr<double>();
  for (double loss : losses) *sum += loss;
}

}  // namespace

void cross_entropy_gradient(at::Tensor& logits, const at::Tensor& targets, const LossSink& sink) {
  if (use_kernels(logits)) return cross_entropy_kernels(logits, targets, sink);
  const at::Tensor column = targets.unsqueeze(1);  // (n, 1)
  const at::Tensor counted = column.ne(sink.ignore_token).to(at::kFloat);
  const at::Tensor log_probabilities = at::_log_softmax(logits, -1, false);
  sink.sum.sub_((log_probabilities.gather(1, column) * counted).sum(at::kDouble));
  logits = log_probabilities.exp();
  logits.scatter_add_(1, column, at::full_like(column, -1, logits.options()));
  logits.mul_(counted * sink.gradient_scale.to(at::kFloat));
}

}  // namespace cleave
