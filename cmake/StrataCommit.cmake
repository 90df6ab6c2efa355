# strata_commit_header(TARGET): gives the target "strata_commit.hpp", which defines STRATA_COMMIT as
# `git describe` puts it, "unknown" outside git. It is asked for anew when HEAD has moved or code
# has changed, and the file is touched only when the answer is another: a build with nothing to do
# does nothing.
set(STRATA_COMMIT_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/write_commit.cmake)

function(strata_commit_header target)
  set(header ${CMAKE_BINARY_DIR}/generated/strata_commit.hpp)
  find_package(Git QUIET)
  set(head "")
  if(GIT_FOUND)
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD
                    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE head
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    cmake_path(ABSOLUTE_PATH head BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    if(NOT EXISTS "${head}" OR IS_DIRECTORY "${head}")
      set(head "")
    endif()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(layers "")
  foreach(layer base gguf quant text model kernels_cpu device core runtime serve)
    get_target_property(type strata_${layer} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND layers strata_${layer})
    endif()
  endforeach()
  add_custom_command(OUTPUT ${header}
                     COMMAND ${CMAKE_COMMAND} -DGIT=${GIT_EXECUTABLE} -DSOURCE=${CMAKE_SOURCE_DIR}
                             -DHEADER=${header} -P ${STRATA_COMMIT_SCRIPT}
                     DEPENDS ${STRATA_COMMIT_SCRIPT} ${head} ${sources} ${layers}
                     COMMENT "Asking git for the commit" VERBATIM)
  target_sources(${target} PRIVATE ${header})
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/generated)
endfunction()
