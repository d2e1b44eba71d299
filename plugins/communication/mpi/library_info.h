// What MPI library runs, for the run header.
#pragma once

#include <string>

namespace cleave::mpi {

/// "Open MPI 5.0.11, pml ob1". Calls MPI.
std::string library_version();
std::string chosen_pml();
/// Whether it was built for CUDA and says that it can use it here.
bool mpi_takes_gpu_memory();

}  // namespace cleave::mpi
