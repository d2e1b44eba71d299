// What MPI library runs, for the run header.
#pragma once

#include <string>

namespace cleave::mpi {

/// "Open MPI 5.0.11, pml ob1". Calls MPI.
std::string describe_library();

}  // namespace cleave::mpi
