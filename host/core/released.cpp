#include "core/released.h"

#include "cleave/error.h"

namespace cleave {

void check_released(const CommStats& stats, const MemoryAccount& memory) {
  if (stats.open_works != 0)
    throw RuntimeError(message(stats.open_works,
                               " works are still held after quiesce(); a strategy ",
                               "must drop its Work objects there"));
  for (MemoryCategory category : {MemoryCategory::gradients, MemoryCategory::communication})
    if (const int64_t bytes = memory.current_bytes(category); bytes != 0)
      throw RuntimeError(message(bytes, " bytes of ", to_string(category), " are still held after ",
                                 "quiesce(); a strategy must drop its tensors there"));
}

}  // namespace cleave
