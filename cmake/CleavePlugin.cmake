# cleave_add_plugin(<kind> <name> SOURCES ... [LIBRARIES ...])
#   kind: strategy | communication. Builds libcleave_<kind>_<name>.so with hidden symbols and no
#   undefined ones. Used by the tree itself and, through the installed package, by third parties.
function(cleave_add_plugin kind name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT kind MATCHES "^(strategy|communication)$")
    message(FATAL_ERROR "cleave_add_plugin: kind is strategy or communication, not ${kind}")
  endif()
  set(target cleave_${kind}_${name})
  add_library(${target} MODULE ${arg_SOURCES})
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_options(${target} PRIVATE -Wl,-z,defs)
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES}
    $<IF:$<STREQUAL:${kind},strategy>,Cleave::torch,Cleave::sdk>)
  if(CLEAVE_PLUGIN_OUTPUT_DIRECTORY)
    set_target_properties(${target} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${CLEAVE_PLUGIN_OUTPUT_DIRECTORY})
  endif()
  set_property(GLOBAL APPEND PROPERTY CLEAVE_PLUGIN_TARGETS ${target})  # CleaveInstall.cmake
endfunction()
