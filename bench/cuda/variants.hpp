#pragma once
#include "kernels/cuda/kernels.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace strata::cuda {

struct Timer {
  cudaStream_t stream;
  cudaEvent_t a, b;
  Timer() {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreate(&a);
    cudaEventCreate(&b);
  }
  // us of one of n calls
  template <class F>
  double us(int n, const F& call) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    for (int i = 0; i < n; ++i) call(i);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    float best = 1e9f;
    for (int r = 0; r < 4; ++r) {
      cudaEventRecord(a, stream);
      cudaGraphLaunch(exec, stream);
      cudaEventRecord(b, stream);
      cudaStreamSynchronize(stream);
      float ms = 0;
      cudaEventElapsedTime(&ms, a, b);
      if (r > 0 && ms < best) best = ms;
    }
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    return best * 1e3 / n;
  }
};

struct Bench {
  Timer timer;
  std::byte* weights;
  std::byte* x;
  float* out;
  DotJob* jobs;
  static constexpr std::size_t kBytes = std::size_t{1} << 30;
  static constexpr int kMostJobs = 4096;
  double copy = 4264.5e9;

  Bench() {
    cudaMalloc(&weights, kBytes + (std::size_t{64} << 20));
    cudaMemset(weights, 0, kBytes);
    cudaMalloc(&x, 64 << 20);
    cudaMemset(x, 0, 64 << 20);
    cudaMalloc(&out, 256 << 20);
    cudaMalloc(&jobs, sizeof(DotJob) * kMostJobs);
  }
  void set_jobs(int tokens, std::size_t bytes, int count) {
    std::vector<DotJob> j;
    for (int i = 0; i < count; ++i) j.push_back({weights + bytes * i, (i % 40) * tokens, tokens});
    cudaMemcpy(jobs, j.data(), sizeof(DotJob) * j.size(), cudaMemcpyHostToDevice);
  }
};

}  // namespace strata::cuda
