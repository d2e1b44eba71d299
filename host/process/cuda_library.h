// CUDA without CUDA's headers, and only where a GPU is: LibTorch's CUDA half costs 230 MiB a rank.
#pragma once

#include <string>

namespace cleave {

struct GpuCount {
  int gpus;
  std::string reason;  ///< why there are none
};

/// Asks the driver; loads nothing of LibTorch.
GpuCount count_gpus();

/// Loads libtorch_cuda from the folder of libtorch_cpu, once a process; before anything looks at
/// LibTorch's CUDA hooks, which keep what they found first. Returns why it could not, or "".
std::string load_torch_cuda();

}  // namespace cleave
