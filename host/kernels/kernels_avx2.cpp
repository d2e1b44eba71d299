#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/kernels.h"

namespace cleave::avx2 {

namespace {
#include "kernels/loops.h"
}  // namespace

extern const Kernels kKernels;
const Kernels kKernels = {
    "avx2",        rms_norm,       rms_norm_backward,    swiglu,           swiglu_backward, rotate,
    cross_entropy, causal_softmax, causal_softmax_again, softmax_backward, square_sum};

}  // namespace cleave::avx2
