# CUDA's runtime for plugins in plain C++: no nvcc, no GPU. Targets: CudaRuntime::headers, and
# CudaRuntime::cudart where the library is there.
#
# CLEAVE_CUDA_ROOT (variable or environment; a folder with include/ and lib/ or lib64/) is used alone
# when given. Else the one beside LibTorch, which LibTorch itself loads; then the CUDA toolkit.
set(_cleave_cuda_own ${CLEAVE_CUDA_ROOT})
if(NOT _cleave_cuda_own)
  set(_cleave_cuda_own $ENV{CLEAVE_CUDA_ROOT})
endif()
if(_cleave_cuda_own)
  set(_cleave_cuda_folders ${_cleave_cuda_own})
else()
  file(GLOB _cleave_cuda_folders ${LibTorch_ROOT}/../nvidia/cu[0-9][0-9])
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND)
    list(APPEND _cleave_cuda_folders ${CUDAToolkit_LIBRARY_ROOT})
  endif()
  list(APPEND _cleave_cuda_folders /usr/local/cuda)
endif()

# looked up anew each time: a cached answer would outlive a changed CLEAVE_CUDA_ROOT
unset(CudaRuntime_INCLUDE_DIR CACHE)
unset(CudaRuntime_LIBRARY CACHE)
foreach(_folder IN LISTS _cleave_cuda_folders)
  # a wheel may lack what others of CUDA's bring
  if(EXISTS ${_folder}/include/cuda_runtime_api.h AND EXISTS ${_folder}/include/crt/host_defines.h
      AND EXISTS ${_folder}/include/nv/target)
    file(STRINGS ${_folder}/include/cuda_runtime_api.h _line REGEX "define CUDART_VERSION ")
    string(REGEX REPLACE "[^0-9]" "" _number "${_line}")
    math(EXPR _major "${_number} / 1000")
    math(EXPR _minor "${_number} % 1000 / 10")
    set(CudaRuntime_VERSION ${_major}.${_minor})
    find_path(CudaRuntime_INCLUDE_DIR NAMES cuda_runtime_api.h PATHS ${_folder}/include
      NO_DEFAULT_PATH)
    find_library(CudaRuntime_LIBRARY NAMES libcudart.so.${_major} libcudart.so cudart
      PATHS ${_folder}/lib ${_folder}/lib64 ${_folder}/targets/x86_64-linux/lib NO_DEFAULT_PATH)
    break()
  endif()
endforeach()
mark_as_advanced(CudaRuntime_INCLUDE_DIR CudaRuntime_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudaRuntime
  REQUIRED_VARS CudaRuntime_INCLUDE_DIR VERSION_VAR CudaRuntime_VERSION
  REASON_FAILURE_MESSAGE "run tools/setup, or set CLEAVE_CUDA_ROOT to a folder with include/ and lib/")

include(CleaveImport)
cleave_import(CudaRuntime cudart)
