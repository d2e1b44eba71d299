#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/kernels.h"

namespace cleave::baseline {

namespace {
#include "kernels/loops.h"
}  // namespace

extern const Kernels kKernels;
const Kernels kKernels = {"baseline",           rms_norm,         rms_norm_backward, swiglu,
                          swiglu_backward,      rotate,           cross_entropy,     causal_softmax,
                          causal_softmax_again, softmax_backward, square_sum};

}  // namespace cleave::baseline
