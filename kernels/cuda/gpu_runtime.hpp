// The GPU runtime that kernels/cuda is compiled against: CUDA's, or with STRATA_HIP that of AMD
// under CUDA's names. No other file knows which of them it is, but for what each has of its own.
#pragma once

#ifndef STRATA_HIP

#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace strata::cuda {
inline constexpr const char* kVendor = "NVIDIA";
inline constexpr const char* kMonitor = "nvidia-smi";
inline constexpr const char* kHidden = "CUDA_VISIBLE_DEVICES";
inline constexpr const char* kArchitectures = "STRATA_CUDA_ARCHITECTURES";
inline constexpr int kLeastCapability = 75;
}  // namespace strata::cuda

#else

#include <hip/hip_runtime_api.h>
#ifdef __HIP__
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#endif

namespace strata::cuda {
inline constexpr const char* kVendor = "AMD";
inline constexpr const char* kMonitor = "rocm-smi";
inline constexpr const char* kHidden = "HIP_VISIBLE_DEVICES";
inline constexpr const char* kArchitectures = "STRATA_HIP_ARCHITECTURES";
inline constexpr int kLeastCapability = 0;  // what there are kernels for is found by running one
}  // namespace strata::cuda

#define cudaDeviceProp hipDeviceProp_t
#define cudaDriverGetVersion hipDriverGetVersion
#define cudaErrorInsufficientDriver hipErrorInsufficientDriver
#define cudaErrorMemoryAllocation hipErrorOutOfMemory
#define cudaErrorNoDevice hipErrorNoDevice
#define cudaErrorNoKernelImageForDevice hipErrorNoBinaryForGpu
#define cudaErrorUnsupportedPtxVersion hipErrorInvalidKernelFile
#define cudaError_t hipError_t
#define cudaEventCreate hipEventCreate
#define cudaEventDestroy hipEventDestroy
#define cudaEventElapsedTime hipEventElapsedTime
#define cudaEventRecord hipEventRecord
#define cudaFree hipFree
#define cudaFreeHost hipHostFree
#define cudaFuncAttributeMaxDynamicSharedMemorySize hipFuncAttributeMaxDynamicSharedMemorySize
#define cudaFuncSetAttribute hipFuncSetAttribute
#define cudaGetDeviceCount hipGetDeviceCount
#define cudaGetDeviceProperties hipGetDeviceProperties
#define cudaGetErrorName hipGetErrorName
#define cudaGetErrorString hipGetErrorString
#define cudaGetLastError hipGetLastError
#define cudaHostAlloc hipHostMalloc
#define cudaHostAllocMapped hipHostMallocMapped
#define cudaHostAllocPortable hipHostMallocPortable
#define cudaHostRegister hipHostRegister
#define cudaHostRegisterMapped hipHostRegisterMapped
#define cudaHostRegisterPortable hipHostRegisterPortable
#define cudaHostUnregister hipHostUnregister
#define cudaMalloc hipMalloc
#define cudaMemGetInfo hipMemGetInfo
#define cudaMemcpyAsync hipMemcpyAsync
#define cudaMemcpyDefault hipMemcpyDefault
#define cudaMemsetAsync hipMemsetAsync
#define cudaRuntimeGetVersion hipRuntimeGetVersion
#define cudaSetDevice hipSetDevice
#define cudaStreamCreateWithFlags hipStreamCreateWithFlags
#define cudaStreamDestroy hipStreamDestroy
#define cudaErrorNotReady hipErrorNotReady
#define cudaStreamNonBlocking hipStreamNonBlocking
#define cudaStreamQuery hipStreamQuery
#define cudaStreamSynchronize hipStreamSynchronize
#define cudaStreamWaitEvent hipStreamWaitEvent
#define cudaSuccess hipSuccess

#endif
