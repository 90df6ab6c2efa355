# The same device for AMD's GPUs, with STRATA_HIP: the sources of kernels/cuda go through hipcc,
# with kernels/cuda/gpu_runtime.hpp in between. The library has CUDA's name: the rest of the build
# does not care which of the two it is.
set(STRATA_HIP_ARCHITECTURES "gfx1030" CACHE STRING "Architectures to build HIP kernels for")

function(strata_kernels_hip)
  find_program(HIPCC hipcc REQUIRED)
  find_library(AMDHIP amdhip64 REQUIRED)
  set(definitions __HIP_PLATFORM_AMD__ STRATA_HIP)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.hpp
                                      ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cuh
                                      ${CMAKE_SOURCE_DIR}/kernels/cpu/panel.hpp)
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cpp)
  set(flags -x hip -std=c++20 -O3 -fPIC -Wall -Wextra -ffp-contract=off
            -fhip-fp32-correctly-rounded-divide-sqrt)
  foreach(definition ${definitions})
    list(APPEND flags -D${definition})
  endforeach()
  foreach(architecture ${STRATA_HIP_ARCHITECTURES})
    list(APPEND flags --offload-arch=${architecture})
  endforeach()
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/hip)
  foreach(kernel ${kernels})
    cmake_path(GET kernel STEM name)
    set(object ${CMAKE_BINARY_DIR}/hip/${name}.o)
    add_custom_command(OUTPUT ${object}
                       COMMAND ${CMAKE_COMMAND} -E env HIP_PLATFORM=amd ${HIPCC} ${flags}
                               -I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR} -c ${kernel}
                               -o ${object}
                       DEPENDS ${kernel} ${headers}
                       COMMENT "Building HIP object ${name}.o" VERBATIM)
    list(APPEND sources ${object})
  endforeach()
  add_library(strata_kernels_cuda STATIC ${sources})
  target_include_directories(strata_kernels_cuda PRIVATE ${CMAKE_SOURCE_DIR}/include
                                                         ${CMAKE_SOURCE_DIR})
  target_compile_definitions(strata_kernels_cuda PRIVATE ${definitions})
  target_compile_options(strata_kernels_cuda PRIVATE -Wall -Wextra)
  target_link_libraries(strata_kernels_cuda PUBLIC fmt::fmt ${AMDHIP})
endfunction()
