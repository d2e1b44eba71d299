// Where a run computes: [train] device, "auto" resolved, and the GPU of a rank.
#pragma once

#include <c10/core/Device.h>

#include "config/run_config.h"
#include "core/solver.h"
#include "process/process.h"

namespace cleave {

bool moves_memory_of(const PlannedBackend& backend, at::DeviceType device);

/// Pure: what [train] device says. "auto": cuda when the run's backend moves no host memory, else
/// cpu; a run has asked open_device() before, so it is "auto" for `host check` alone.
at::DeviceType planned_device(const RunConfig& config, const PlannedBackend& backend);

/// Opens this rank's device (GPU local_rank modulo those there, made the calling thread's), and
/// writes into `config` what "auto" stands for: a GPU when there is one, with LibTorch's CUDA half,
/// and the backend moves its memory. ConfigError with the reason when the run wants a
/// GPU and can't have one. Before anything else looks at LibTorch's CUDA.
at::Device open_device(RunConfig& config, const PlannedBackend& backend,
                       const ProcessInfo& process);

}  // namespace cleave
