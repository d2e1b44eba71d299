# LibTorch without TorchConfig.cmake: that one pulls in libtorch_cuda (484 MiB resident a process
# instead of 134) and runs CUDA detection. Target: LibTorch::cpu (libtorch_cpu + libc10).
#
# CLEAVE_LIBTORCH (variable or environment; a folder with include/ and lib/) is used alone when given.
# Else: CMAKE_PREFIX_PATH (a LibTorch, or torch's share/cmake), then tools/setup's copy in .deps.
set(_cleave_torch_own ${CLEAVE_LIBTORCH})
if(NOT _cleave_torch_own)
  set(_cleave_torch_own $ENV{CLEAVE_LIBTORCH})
endif()
if(_cleave_torch_own)
  set(_cleave_torch_folders ${_cleave_torch_own})
else()
  set(_cleave_torch_folders)
  string(REPLACE ":" ";" _cleave_torch_prefixes "$ENV{CMAKE_PREFIX_PATH}")
  foreach(_prefix IN LISTS CMAKE_PREFIX_PATH _cleave_torch_prefixes)
    list(APPEND _cleave_torch_folders ${_prefix} ${_prefix}/../..)
  endforeach()
  file(GLOB _cleave_torch_private ${PROJECT_SOURCE_DIR}/.deps/python/lib/python3*/site-packages/torch)
  list(APPEND _cleave_torch_folders ${_cleave_torch_private})
endif()

# looked up anew each time: a cached answer would outlive a changed CLEAVE_LIBTORCH
unset(LibTorch_ROOT CACHE)
unset(LibTorch_cpu_LIBRARY CACHE)
unset(LibTorch_c10_LIBRARY CACHE)
unset(LibTorch_cuda_LIBRARY CACHE)
find_path(LibTorch_ROOT NAMES include/ATen/ATen.h PATHS ${_cleave_torch_folders} NO_DEFAULT_PATH)
find_library(LibTorch_cpu_LIBRARY NAMES torch_cpu PATHS ${LibTorch_ROOT}/lib NO_DEFAULT_PATH)
find_library(LibTorch_c10_LIBRARY NAMES c10 PATHS ${LibTorch_ROOT}/lib NO_DEFAULT_PATH)
find_library(LibTorch_cuda_LIBRARY NAMES torch_cuda PATHS ${LibTorch_ROOT}/lib NO_DEFAULT_PATH)
mark_as_advanced(LibTorch_ROOT LibTorch_cpu_LIBRARY LibTorch_c10_LIBRARY LibTorch_cuda_LIBRARY)

if(LibTorch_ROOT)
  file(STRINGS ${LibTorch_ROOT}/include/torch/headeronly/version.h _version_lines
       REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" LibTorch_VERSION "${_version_lines}")
  list(JOIN LibTorch_VERSION "." LibTorch_VERSION)
endif()

include(FindPackageHandleStandardArgs)
list(JOIN _cleave_torch_folders ", " _cleave_torch_folders)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_ROOT LibTorch_cpu_LIBRARY LibTorch_c10_LIBRARY
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "looked in [${_cleave_torch_folders}]. Run tools/setup, or set CLEAVE_LIBTORCH to a folder with \
include/ and lib/")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  add_library(LibTorch::cpu INTERFACE IMPORTED GLOBAL)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE
    ${LibTorch_ROOT}/include ${LibTorch_ROOT}/include/torch/csrc/api/include)
  target_link_libraries(LibTorch::cpu INTERFACE ${LibTorch_cpu_LIBRARY} ${LibTorch_c10_LIBRARY})
  target_compile_definitions(LibTorch::cpu INTERFACE _GLIBCXX_USE_CXX11_ABI=1 CLEAVE_WITH_TORCH=1)
endif()
