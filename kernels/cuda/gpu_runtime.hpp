// The GPU runtime that kernels/cuda is compiled against: CUDA's, or HIP's under CUDA's names
// (STRATA_HIP). The only place that knows both. STRATA_GPU says that a GPU's compiler is at work:
// nvcc, or hipcc's clang; without it kernels are loops on the host.
#pragma once

#if defined(__CUDACC__) || (defined(STRATA_HIP) && defined(__HIP__))
#define STRATA_GPU 1
#endif

#ifdef STRATA_HIP
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#elif defined(__CUDACC__)
#include <cuda_fp16.h>
#endif
