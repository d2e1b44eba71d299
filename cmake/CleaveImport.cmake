# cleave_import(<package> <library>)   at the end of a find module that set <package>_INCLUDE_DIR, and
#   <package>_LIBRARY where there is one. Targets: <package>::headers and <package>::<library>.
function(cleave_import package library)
  if(NOT ${package}_FOUND OR TARGET ${package}::headers)
    return()
  endif()
  add_library(${package}::headers INTERFACE IMPORTED GLOBAL)
  target_include_directories(${package}::headers SYSTEM INTERFACE ${${package}_INCLUDE_DIR})
  if(${package}_LIBRARY)
    add_library(${package}::${library} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(${package}::${library} PROPERTIES
      IMPORTED_LOCATION ${${package}_LIBRARY} INTERFACE_LINK_LIBRARIES ${package}::headers)
  endif()
endfunction()
