#include "core/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <string>

#include "cleave/error.h"
#include "process/cuda_library.h"

namespace cleave {

namespace {

constexpr char kAuto[] = "auto", kCpu[] = "cpu", kCuda[] = "cuda";

[[noreturn]] void refuse(const RunConfig& config, const PlannedBackend& backend,
                         const std::string& reason) {
  if (config.train.device == kCuda)
    throw ConfigError(message(config.where("train.device"),
                              " = \"cuda\", but no GPU can be used here: ", reason,
                              "; use device = \"cpu\", or run where nvidia-smi lists a GPU"));
  throw ConfigError(message(backend.origin.text, ": communication ", backend.name,
                            " moves GPU memory only, and no GPU can be used here: ", reason,
                            "; use backend = \"mpi\", or run where nvidia-smi lists a GPU"));
}

}  // namespace

bool moves_memory_of(const PlannedBackend& backend, at::DeviceType device) {
  const auto& dtypes = backend.capabilities.dtypes[device == at::kCUDA ? CLEAVE_CUDA : CLEAVE_CPU];
  return std::any_of(std::begin(dtypes), std::end(dtypes), [](uint32_t set) { return set != 0; });
}

at::DeviceType planned_device(const RunConfig& config, const PlannedBackend& backend) {
  if (config.train.device == kCuda) return at::kCUDA;
  if (config.train.device == kCpu) return at::kCPU;
  return moves_memory_of(backend, at::kCPU) ? at::kCPU : at::kCUDA;
}

at::Device open_device(RunConfig& config, const PlannedBackend& backend,
                       const ProcessInfo& process) {
  std::string& wanted = config.train.device;
  // a GPU is not looked for where the backend could not use it
  if (wanted == kCpu || (wanted == kAuto && !moves_memory_of(backend, at::kCUDA))) {
    wanted = kCpu;
    return at::kCPU;
  }
  const GpuCount found = count_gpus();
  const std::string obstacle = found.gpus == 0 ? found.reason : load_torch_cuda();
  if (!obstacle.empty()) {
    if (planned_device(config, backend) == at::kCUDA) refuse(config, backend, obstacle);
    wanted = kCpu;
    return at::kCPU;
  }
  at::globalContext().lazyInitDevice(at::kCUDA);
  wanted = kCuda;
  const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
  const at::Device device(at::kCUDA,
                          static_cast<c10::DeviceIndex>(process.local_rank % cuda.deviceCount()));
  cuda.setDevice(device);
  return device;
}

}  // namespace cleave
