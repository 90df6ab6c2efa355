# Compiler flags every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(strata_flags INTERFACE)
target_include_directories(strata_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR})
# -ffp-contract=off: the order and rounding of every operation is part of the contract
# (docs/exactness.md), so the compiler may not fuse what the source does not.
target_compile_options(strata_flags INTERFACE -Wall -Wextra -ffp-contract=off)
# TESTED: newer compilers find new things to warn of, which must not break a user's build.
set(STRATA_WERROR OFF CACHE STRING "Warnings are errors: OFF, ON, or TESTED: with CI's compilers")
set(tested_GNU 12)
set(tested_Clang 14)
string(REGEX MATCH "^[0-9]+" compiler_major "${CMAKE_CXX_COMPILER_VERSION}")
if(STRATA_WERROR STREQUAL "TESTED")
  if("${compiler_major}" IN_LIST tested_${CMAKE_CXX_COMPILER_ID})
    target_compile_options(strata_flags INTERFACE -Werror)
  endif()
elseif(STRATA_WERROR)
  target_compile_options(strata_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overflows in std::vector<std::byte>::insert that are not there (GCC bug 107852),
  # and overlapping copies in std::string's operator+ and assignment (GCC bug 105651).
  target_compile_options(strata_flags INTERFACE -Wno-stringop-overflow -Wno-array-bounds
                                                -Wno-restrict)
endif()

# For builds from nothing: eight files at a time go to the compiler as one, which takes a third of
# the time. For this, names with internal linkage must differ within a layer, but for the kernels.
option(STRATA_UNITY "Compile several files at a time" OFF)
set(CMAKE_UNITY_BUILD ${STRATA_UNITY})
if(STRATA_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC takes a file that another includes for a header, which must not name local types.
  target_compile_options(strata_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

if(STRATA_SANITIZE)
  # -g1: names and lines are all that reports need.
  target_compile_options(strata_flags INTERFACE -g1 -fsanitize=${STRATA_SANITIZE}
                                                -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # The layers are optimised for their tests' sake; tests and programs are not, for the compiler's.
  target_compile_options(strata_flags INTERFACE
                         $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,STATIC_LIBRARY>:-O1>)
  target_link_options(strata_flags INTERFACE -fsanitize=${STRATA_SANITIZE})
endif()
