# cleave_add_test(<name> SOURCES ... [LIBRARIES ...] [TIMEOUT s])        a GoogleTest program
# cleave_add_rank_test(<name> RANKS 1 2 ... [TIMEOUT s])                 the same under mpirun -np N
function(cleave_add_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gtest_main)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS unit)
endfunction()

function(cleave_add_rank_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "RANKS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  foreach(ranks IN LISTS arg_RANKS)
    add_test(NAME ${name}.np${ranks}
      COMMAND ${PROJECT_SOURCE_DIR}/tools/env mpirun -np ${ranks} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.np${ranks} PROPERTIES
      TIMEOUT ${arg_TIMEOUT} LABELS ranks PROCESSORS 2)
  endforeach()
endfunction()
