# The CUDA device. With STRATA_CUDA the kernels of kernels/cuda become the library
# strata_kernels_cuda, which is part of strata_device; without it src/device/cuda_absent.cpp stands
# for them. A program with CUDA also runs where there is no GPU and no driver: the CUDA runtime is
# linked statically and finds the driver by itself.
set(STRATA_CUDA_ARCHITECTURES "75;80;86;89;90;120" CACHE STRING
    "Compute capabilities to build CUDA kernels for, or native: that of this machine's GPU")

# STRATA_DEVICE_EXCLUDE: the files of src/device that this build leaves out, as an expression.
if(STRATA_CUDA AND STRATA_HIP)
  message(FATAL_ERROR "STRATA_CUDA and STRATA_HIP: one device a build")
endif()
if(STRATA_CUDA)
  set(CMAKE_CUDA_ARCHITECTURES ${STRATA_CUDA_ARCHITECTURES})
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  enable_language(CUDA)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  endif()
  find_package(CUDAToolkit REQUIRED)
  set(STRATA_DEVICE_EXCLUDE "/cuda_absent\\.cpp$")
elseif(STRATA_HIP)
  set(STRATA_DEVICE_EXCLUDE "/cuda_absent\\.cpp$")
else()
  set(STRATA_DEVICE_EXCLUDE "/cuda_(attention|copier|device|experts|state|status|window)\\.cpp$")
endif()

# Members of their own in strata_device's archive: the emulated tests link others in their place.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/cuda_*.cpp)
set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# The kernels of kernels/cuda, and the runtime calls they and the device are made of.
function(strata_kernels_cuda)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu
                                      ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cpp)
  add_library(strata_kernels_cuda STATIC ${sources})
  target_include_directories(strata_kernels_cuda PRIVATE ${CMAKE_SOURCE_DIR}/include
                                                         ${CMAKE_SOURCE_DIR})
  # -fmad=false: the order and rounding of every operation is part of the contract
  # (docs/exactness.md).
  target_compile_options(strata_kernels_cuda PRIVATE
                         $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false -Xcompiler=-Wall,-Wextra>
                         $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>)
  target_link_libraries(strata_kernels_cuda PRIVATE fmt::fmt CUDA::cudart_static)
  set_target_properties(strata_kernels_cuda PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON
                                                       CUDA_RUNTIME_LIBRARY Static)
endfunction()
