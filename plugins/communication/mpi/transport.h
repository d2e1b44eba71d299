// What carries MPI's messages: chosen before MPI starts, verified after.
#pragma once

#include <string>
#include <vector>

namespace cleave::mpi {

struct Transport {
  std::string pml = "auto";          ///< auto, ob1 or ucx (Open MPI's point-to-point layers)
  std::vector<std::string> devices;  ///< network interfaces or adapters; none: all that MPI finds
};

/// Sets the environment variables that Open MPI and UCX read when they start, unless the user has
/// set them. auto: UCX between machines, over TCP too, which Open MPI would give to ob1: that
/// reaches three quarters of a 1 Gbit/s line both ways, UCX all of it. ConfigError when a device
/// does not exist here.
void prepare_transport(const Transport& transport, int world_size, int local_size);

/// ConfigError when Open MPI chose another layer than was asked for.
void check_transport(const Transport& transport, const std::string& chosen_pml);

}  // namespace cleave::mpi
