# NCCL 2.28 or later. Targets: NCCL::headers, and NCCL::nccl where the library is there.
#
# CLEAVE_NCCL (variable or environment; a folder with include/ and lib/) is used alone when given.
# Else the one beside LibTorch, which LibTorch itself loads; then the system's.
set(_cleave_nccl_own ${CLEAVE_NCCL})
if(NOT _cleave_nccl_own)
  set(_cleave_nccl_own $ENV{CLEAVE_NCCL})
endif()
if(_cleave_nccl_own)
  set(_cleave_nccl_folders ${_cleave_nccl_own})
else()
  set(_cleave_nccl_folders ${LibTorch_ROOT}/../nvidia/nccl /usr/local/cuda /usr/local /usr)
endif()

# looked up anew each time: a cached answer would outlive a changed CLEAVE_NCCL
unset(NCCL_INCLUDE_DIR CACHE)
unset(NCCL_LIBRARY CACHE)
find_path(NCCL_INCLUDE_DIR NAMES nccl.h PATHS ${_cleave_nccl_folders} PATH_SUFFIXES include
  NO_DEFAULT_PATH)
if(NCCL_INCLUDE_DIR)
  # of the same installation: an older library would lack what the header declares
  get_filename_component(_cleave_nccl_root ${NCCL_INCLUDE_DIR} DIRECTORY)
  find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl PATHS ${_cleave_nccl_root}
    PATH_SUFFIXES lib lib64 lib/${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h _lines REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" NCCL_VERSION "${_lines}")
  list(JOIN NCCL_VERSION "." NCCL_VERSION)
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION
  REASON_FAILURE_MESSAGE "run tools/setup, or set CLEAVE_NCCL to a folder with include/ and lib/")

include(CleaveImport)
cleave_import(NCCL nccl)
