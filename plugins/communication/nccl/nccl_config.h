#pragma once

#include <nccl.h>

namespace cleave::nccl {

/// Calls that return at once, so that they can be polled with a deadline and aborted.
inline ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace cleave::nccl
