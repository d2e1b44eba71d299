// After a run, strategies must have let go of everything.
#pragma once

#include "cleave/comm.h"
#include "core/memory_account.h"

namespace cleave {

/// To be called after Strategies::quiesce and when the model's tensors are gone: RuntimeError when
/// works or tensors of strategies (gradients, communication buffers) are still alive.
void check_released(const CommStats& stats, const MemoryAccount& memory);

}  // namespace cleave
