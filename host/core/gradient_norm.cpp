#include "core/gradient_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/kernels.h"

namespace cleave {

namespace {

// Blocks are fixed, so the sum does not depend on the number of threads.
constexpr int64_t kBlock = 1 << 16;

double blocked_square_sum(const float* x, int64_t n) {
  std::vector<double> sums((n + kBlock - 1) / kBlock);
  at::parallel_for(0, sums.size(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      sums[block] = kernels().square_sum(x + block * kBlock, std::min(kBlock, n - block * kBlock));
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// A float64 scalar on the gradient's device.
at::Tensor square_sum(const at::Tensor& gradient) {
  return at::linalg_vector_norm(gradient, 2, std::nullopt, false, at::kDouble).square();
}

}  // namespace

double gradient_square_sum(const std::vector<Parameter*>& parameters, const Mesh& mesh, int rank) {
  double total = 0;
  std::vector<at::Tensor> elsewhere;  // read together: each read would wait for the device
  for (const Parameter* parameter : parameters) {
    if (!is_owner(parameter->gradient_placement, mesh, rank)) continue;
    const at::Tensor& gradient = parameter->reduced_gradient;
    if (gradient.is_cpu() && gradient.is_contiguous())
      total += blocked_square_sum(gradient.const_data_ptr<float>(), gradient.numel());
    else
      elsewhere.push_back(square_sum(gradient));
  }
  return elsewhere.empty() ? total : total + at::stack(elsewhere).sum().item<double>();
}

double clip_coefficient(double norm, double clip_norm) {
  return clip_norm == 0 ? 1.0 : std::min(1.0, clip_norm / (norm + 1e-6));
}

}  // namespace cleave
