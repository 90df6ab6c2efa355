# strata_layer(NAME DEPENDS ... [EXCLUDE regex]): the static library strata_NAME of src/NAME/*.cpp,
# less those that the expression matches.
# A layer whose folder is still empty becomes an interface library, so that its users link.
function(strata_layer name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCLUDE}")
  endif()
  if(sources)
    add_library(strata_${name} STATIC ${sources})
    target_link_libraries(strata_${name} PUBLIC strata_flags ${ARG_DEPENDS})
  else()
    add_library(strata_${name} INTERFACE)
    target_link_libraries(strata_${name} INTERFACE strata_flags ${ARG_DEPENDS})
  endif()
endfunction()

# The CPU kernels: each kernels/cpu/isa_NAME.cpp is compiled for its instruction set.
function(strata_kernels_cpu)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cpu/*.cpp)
  if(NOT sources)
    add_library(strata_kernels_cpu INTERFACE)
    target_link_libraries(strata_kernels_cpu INTERFACE strata_quant)
    return()
  endif()
  add_library(strata_kernels_cpu STATIC ${sources})
  target_link_libraries(strata_kernels_cpu PUBLIC strata_quant)
  set_target_properties(strata_kernels_cpu PROPERTIES UNITY_BUILD OFF)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12's own AVX-512 headers pass a deliberately undefined register (GCC bug 105593).
    target_compile_options(strata_kernels_cpu PRIVATE -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
  if(STRATA_SANITIZE)
    # A check at every step of an unrolled loop's pointers takes the compiler minutes; the address
    # sanitizer sees where they lead.
    target_compile_options(strata_kernels_cpu PRIVATE -fno-sanitize=pointer-overflow)
  endif()
  set(avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
             -mprefer-vector-width=512)
  set(flags_avx2 ${avx2})
  set(flags_avxvnni ${avx2} -mavxvnni)
  set(flags_avx512 ${avx512})
  set(flags_amx ${avx512} -mamx-tile -mamx-int8)
  set(flags_generic -fno-tree-vectorize)  # it defines the bits; its speed matters to no one
  if(NOT STRATA_SANITIZE)
    list(APPEND flags_generic -O2)
  endif()
  foreach(isa generic avx2 avxvnni avx512 amx)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cpu/isa_${isa}.cpp PROPERTIES
                                COMPILE_OPTIONS "${flags_${isa}}")
  endforeach()
endfunction()

# strata_program(NAME): the program of src/app/*.cpp.
function(strata_program name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/app/*.cpp)
  if(sources)
    add_executable(${name} ${sources})
    target_link_libraries(${name} PRIVATE strata_runtime CLI11::CLI11 spdlog::spdlog)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
    strata_commit_header(${name})
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/app/version.cpp PROPERTIES
                                COMPILE_DEFINITIONS STRATA_VERSION="${PROJECT_VERSION}")
  endif()
endfunction()
