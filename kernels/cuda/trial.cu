#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/simt.cuh"

namespace strata::cuda {
namespace {

struct TrialKernel {
  static constexpr const char* kName = "trial";
  static constexpr int kThreads = 32;
  struct Shared {
    std::int32_t sum[kThreads];
  };
  std::int32_t* answer;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    block.each([&](int thread) { shared.sum[thread] = thread; });
    block.each([&](int thread) {
      if (thread == 0) *answer = kTrialAnswer - 31 + shared.sum[kThreads - 1];
    });
  }
};

}  // namespace

void trial(Stream stream, std::int32_t* answer) { launch(stream, 1, TrialKernel{answer}); }

}  // namespace strata::cuda
