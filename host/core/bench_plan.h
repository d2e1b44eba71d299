// What `host bench` will measure: the request, checked before anything is started.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <vector>

#include "config/bench_request.h"
#include "config/run_config.h"
#include "core/solver.h"
#include "process/process.h"

namespace cleave {

struct BenchPlan {
  RunConfig config{};  ///< only what Communicators needs
  PlannedBackend backend{};
  at::DeviceType device;   ///< of the buffers: the CPU where the backend moves its memory
  bool ranks_are_threads;  ///< of this process, `world_size` of them
  int world_size;
  at::ScalarType dtype;
  std::string dtype_name;
  std::vector<cleave_op> ops;  ///< CLEAVE_SEND stands for send and receive at once
  std::vector<int64_t> sizes;  ///< bytes of the larger buffer, as asked for
  bool must_fit;               ///< sizes were asked for: memory that is too small is an error
};

/// "send_recv" for CLEAVE_SEND, else as messages spell the op.
std::string bench_op_name(cleave_op op);

/// Loads the backend's plugin, starts nothing. ConfigError with the valid values: unknown backend,
/// op, dtype, size or option, an op or dtype that the backend does not have, ranks given twice.
BenchPlan make_bench_plan(const BenchRequest& request, const ProcessInfo& process);

/// `bytes` in elements, rounded up to what the op can do: whole elements, the same number for each
/// rank where the buffer is divided among the ranks. A barrier has none.
int64_t bench_elements(cleave_op op, int64_t bytes, int64_t element_bytes, int ranks);

/// The sizes that an op is measured at: a barrier once, without any.
std::vector<int64_t> sizes_of(const BenchPlan& plan, cleave_op op);

}  // namespace cleave
