# cmake -DGIT=... -DSOURCE=... -DHEADER=... -P write_commit.cmake: see StrataCommit.cmake.
set(commit unknown)
if(GIT)
  # A release unpacked inside another repository must not name that one's commit.
  execute_process(COMMAND ${GIT} rev-parse --show-prefix WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE
                  RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed AND prefix STREQUAL "")
    execute_process(COMMAND ${GIT} describe --always --dirty --abbrev=10 WORKING_DIRECTORY ${SOURCE}
                    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE
                  RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed AND described)
      set(commit ${described})
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define STRATA_COMMIT \"${commit}\"\n" @ONLY)
