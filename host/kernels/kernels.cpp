#include "kernels/kernels.h"

namespace cleave {

namespace avx512 {
extern const Kernels kKernels;
}
namespace avx2 {
extern const Kernels kKernels;
}
namespace baseline {
extern const Kernels kKernels;
}

const Kernels& kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    return avx512::kKernels;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::kKernels;
#endif
  return baseline::kKernels;
}

}  // namespace cleave
