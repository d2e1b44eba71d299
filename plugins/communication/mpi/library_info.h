// What MPI library runs, for the run header.
#pragma once

#include <string>

namespace cleave::mpi {

/// "Open MPI 5.0.11, pml ob1". Calls MPI.
std::string library_version();
std::string chosen_pml();

}  // namespace cleave::mpi
