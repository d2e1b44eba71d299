#include "core/gemm.h"

#ifdef CLEAVE_HAVE_SGEMM
// LibTorch's own BLAS (MKL in its x86-64 builds), Fortran interface: columns first.
extern "C" void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* a_stride,
                       const float* b, const int* b_stride, const float* beta, float* c,
                       const int* c_stride);
#else
#include <ATen/ATen.h>
#endif

namespace cleave {

#ifdef CLEAVE_HAVE_SGEMM

void gemm(GemmOperand a, GemmOperand b, float* c, int64_t c_stride, int64_t m, int64_t n, int64_t k,
          float alpha, float beta) {
  // read by columns, row-major c is c^T = b^T a^T: the operands swap
  const int rows = static_cast<int>(n), columns = static_cast<int>(m), inner = static_cast<int>(k);
  const int a_stride = static_cast<int>(a.stride), b_stride = static_cast<int>(b.stride);
  const int stride = static_cast<int>(c_stride);
  sgemm_(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &rows, &columns, &inner, &alpha,
         b.data, &b_stride, a.data, &a_stride, &beta, c, &stride);
}

#else

void gemm(GemmOperand a, GemmOperand b, float* c, int64_t c_stride, int64_t m, int64_t n, int64_t k,
          float alpha, float beta) {
  const auto view = [](const GemmOperand& x, int64_t rows, int64_t columns) {
    const std::vector<int64_t> shape = {x.transposed ? columns : rows,
                                        x.transposed ? rows : columns};
    const at::Tensor y =
        at::from_blob(const_cast<float*>(x.data), shape, {x.stride, 1}, at::kFloat);
    return x.transposed ? y.t() : y;
  };
  at::Tensor out = at::from_blob(c, {m, n}, {c_stride, 1}, at::kFloat);
  out.addmm_(view(a, m, k), view(b, k, n), beta, alpha);
}

#endif

}  // namespace cleave
