#include "library_info.h"

#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include "channel.h"

namespace cleave::mpi {

/// "Open MPI v5.0.11, package: ..." -> "Open MPI 5.0.11"
std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  check(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  std::string version(text, static_cast<size_t>(length));
  version = version.substr(0, version.find_first_of(",\n"));
  const size_t prefix = version.find(" v");
  if (prefix != std::string::npos) version.erase(prefix + 1, 1);
  return version;
}

/// Open MPI closes the components that lost the selection, and their variables with them: the one
/// that still has a priority is the one in use.
std::string chosen_pml() {
  int provided = 0;
  if (MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) return "unknown";
  std::string found;
  int count = 0;
  MPI_T_cvar_get_num(&count);
  for (int index = 0; index < count; ++index) {
    char name[128];
    char description[4];
    int name_length = sizeof name;
    int description_length = sizeof description;
    int verbosity, bind, scope;
    MPI_Datatype type;
    MPI_T_enum values;
    if (MPI_T_cvar_get_info(index, name, &name_length, &verbosity, &type, &values, description,
                            &description_length, &bind, &scope) != MPI_SUCCESS)
      continue;
    const std::string variable = name;
    if (!variable.starts_with("pml_") || !variable.ends_with("_priority")) continue;
    const std::string component = variable.substr(4, variable.size() - 4 - 9);
    found = found.empty() || found == component ? component : "unknown";
  }
  MPI_T_finalize();
  return found.empty() ? "unknown" : found;
}

bool mpi_takes_gpu_memory() {
#ifdef OMPI_HAVE_MPI_EXT_CUDA
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

}  // namespace cleave::mpi
