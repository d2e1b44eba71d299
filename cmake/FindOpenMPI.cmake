# Open MPI for the mpi plugin and the tests. Target: OpenMPI::mpi.
#
# CLEAVE_MPI (variable or environment; Open MPI's prefix) is used alone when given. Else: tools/setup's
# copy in .deps, then the one whose mpirun is on PATH.
set(_cleave_mpi_own ${CLEAVE_MPI})
if(NOT _cleave_mpi_own)
  set(_cleave_mpi_own $ENV{CLEAVE_MPI})
endif()

# looked up anew each time: a cached answer would outlive a changed CLEAVE_MPI
unset(OpenMPI_mpirun CACHE)
unset(OpenMPI_INCLUDE_DIR CACHE)
unset(OpenMPI_LIBRARY CACHE)
if(_cleave_mpi_own)
  find_program(OpenMPI_mpirun NAMES mpirun PATHS ${_cleave_mpi_own}/bin NO_DEFAULT_PATH)
else()
  find_program(OpenMPI_mpirun NAMES mpirun HINTS ${PROJECT_SOURCE_DIR}/.deps/python/bin)
endif()
get_filename_component(_mpi_root "${OpenMPI_mpirun}" DIRECTORY)
get_filename_component(_mpi_root "${_mpi_root}" DIRECTORY)
# only below that mpirun's prefix: another one's libmpi would not work with its launcher
set(_mpi_folders ${_mpi_root} ${_mpi_root}/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi
  ${_mpi_root}/lib/openmpi)
find_path(OpenMPI_INCLUDE_DIR NAMES mpi.h PATHS ${_mpi_folders} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_library(OpenMPI_LIBRARY NAMES mpi PATHS ${_mpi_folders} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
mark_as_advanced(OpenMPI_mpirun OpenMPI_INCLUDE_DIR OpenMPI_LIBRARY)

if(OpenMPI_INCLUDE_DIR)
  file(STRINGS ${OpenMPI_INCLUDE_DIR}/mpi.h _lines
       REGEX "define OMPI_(MAJOR|MINOR|RELEASE)_VERSION")
  string(REGEX REPLACE "[^0-9;]" "" OpenMPI_VERSION "${_lines}")
  list(JOIN OpenMPI_VERSION "." OpenMPI_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenMPI
  REQUIRED_VARS OpenMPI_LIBRARY OpenMPI_INCLUDE_DIR OpenMPI_mpirun VERSION_VAR OpenMPI_VERSION
  REASON_FAILURE_MESSAGE "run tools/setup, or set CLEAVE_MPI to the prefix of an Open MPI")

if(OpenMPI_FOUND AND NOT TARGET OpenMPI::mpi)
  add_library(OpenMPI::mpi UNKNOWN IMPORTED GLOBAL)
  # Open MPI 4 still has C++ bindings, in a library of their own; nothing here uses them
  set_target_properties(OpenMPI::mpi PROPERTIES IMPORTED_LOCATION ${OpenMPI_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OpenMPI_INCLUDE_DIR}
    INTERFACE_COMPILE_DEFINITIONS OMPI_SKIP_MPICXX=1)
endif()
