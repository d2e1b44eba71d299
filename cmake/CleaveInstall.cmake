# cmake --install: the program, the SDK, the plugins and the CMake package.
# The result can be moved: own libraries are found from where the files are, LibTorch and MPI by the
# absolute paths of this build.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# the host looks here beside its own folder, on every distribution
set(CLEAVE_INSTALL_PLUGINDIR lib/cleave/plugins)
set(CLEAVE_INSTALL_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/Cleave)

# _cleave_rpath(<target> <its folder>). CMake's INSTALL_RPATH_USE_LINK_PATH is no help: it leaves out
# what lies inside the source tree, and .deps does.
function(_cleave_rpath target folder)
  file(RELATIVE_PATH to_libraries /${folder} /${CMAKE_INSTALL_LIBDIR})
  set(rpath "$ORIGIN/${to_libraries}" ${LibTorch_ROOT}/lib)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  if("OpenMPI::mpi" IN_LIST libraries)
    get_filename_component(mpi_folder ${OpenMPI_LIBRARY} DIRECTORY)
    list(APPEND rpath ${mpi_folder})
  endif()
  if("NCCL::nccl" IN_LIST libraries)
    get_filename_component(nccl_folder ${NCCL_LIBRARY} DIRECTORY)
    list(APPEND rpath ${nccl_folder})
  endif()
  if("CudaRuntime::cudart" IN_LIST libraries)
    get_filename_component(cuda_folder ${CudaRuntime_LIBRARY} DIRECTORY)
    list(APPEND rpath ${cuda_folder})
  endif()
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${rpath}")
endfunction()

_cleave_rpath(cleave_sdk ${CMAKE_INSTALL_LIBDIR})
_cleave_rpath(cleave_sdk_torch ${CMAKE_INSTALL_LIBDIR})
install(TARGETS cleave_sdk cleave_sdk_torch EXPORT CleaveTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/sdk/include/cleave
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

get_property(_plugins GLOBAL PROPERTY CLEAVE_PLUGIN_TARGETS)
foreach(_plugin IN LISTS _plugins)
  _cleave_rpath(${_plugin} ${CLEAVE_INSTALL_PLUGINDIR})
  install(TARGETS ${_plugin} LIBRARY DESTINATION ${CLEAVE_INSTALL_PLUGINDIR})
endforeach()
file(GLOB _not_built ${CLEAVE_PLUGIN_OUTPUT_DIRECTORY}/*.not-built)
install(FILES ${_not_built} DESTINATION ${CLEAVE_INSTALL_PLUGINDIR})

if(TARGET host)
  _cleave_rpath(host ${CMAKE_INSTALL_BINDIR})
  install(TARGETS host RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT CleaveTargets NAMESPACE Cleave:: DESTINATION ${CLEAVE_INSTALL_CMAKEDIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/CleaveConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/CleaveConfig.cmake
  INSTALL_DESTINATION ${CLEAVE_INSTALL_CMAKEDIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/CleaveConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/CleaveConfig.cmake
  ${PROJECT_BINARY_DIR}/package/CleaveConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake
  ${PROJECT_SOURCE_DIR}/cmake/CleavePlugin.cmake
  DESTINATION ${CLEAVE_INSTALL_CMAKEDIR})
