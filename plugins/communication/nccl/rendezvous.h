// How the ranks find each other's GPUs and agree on NCCL's unique id, over the host's key-value
// store.
#pragma once

#include <nccl.h>

#include <string>

#include "cleave/communicator.h"

namespace cleave::nccl {

struct Gpu {
  int device;         ///< in this process
  std::string name;   ///< "NVIDIA H200"
  std::string place;  ///< "0000:17:00.0 of host node3", unique
};

/// That of this rank: local_rank modulo those that the process sees. ConfigError when it sees none,
/// or NCCL's library is older than 2.28.
Gpu find_gpu(const cleave_bootstrap& bootstrap);

struct Meeting {
  ncclUniqueId id;
  std::string key;  ///< of this communicator, the same on all ranks; no other one's
};

/// Collective. The same ConfigError on all ranks when two of them have one GPU.
Meeting meet(const cleave_bootstrap& bootstrap, const Gpu& gpu);

/// NCCL's bootstrap and socket transport use this interface alone; before the process's first other
/// call of NCCL. ConfigError names those that are there.
void use_interface(const std::string& name);

}  // namespace cleave::nccl
