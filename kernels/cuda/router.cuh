// Softmax over the experts and the choice of the most probable, one block a token.
#pragma once

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/math.cuh"

namespace strata::cuda {

struct RouteKernel {
  static constexpr const char* kName = "route";
  static constexpr int kThreads = 256;
  static constexpr float kMinSum = 6.103515625e-5f;  // 2^-14
  struct Shared {
    float p[kMaxExperts];
    float lanes[16];
    float top;
    float total;
    float weight_sum;
  };
  RouteArgs a;

  // Is expert i chosen before expert j? Ties go to the lower id.
  STRATA_DEVICE static bool before(const float* p, int i, int j) {
    return p[i] > p[j] || (p[i] == p[j] && i < j);
  }

  STRATA_DEVICE void softmax(Block<kThreads> block, Shared& shared) const {
    const float* x = a.logits + block.index * a.width;
    const int n = a.experts;
    block.each([&](int thread) {
      if (thread >= 16) return;
      float m = -kInfinity;
      for (int i = thread; i < n; i += 16) m = max_of(x[i], m);
      shared.lanes[thread] = m;
    });
    block.each([&](int thread) {
      if (thread != 0) return;
      float m = shared.lanes[0];
      for (int i = 1; i < 16; ++i) m = max_of(shared.lanes[i], m);
      shared.top = m;
    });
    block.each([&](int thread) {
      for (int i = thread; i < n; i += kThreads) shared.p[i] = exp_of(sub_rn(x[i], shared.top));
    });
    block.each([&](int thread) {  // lane i adds elements i, i + 16, ... in order
      if (thread >= 16) return;
      float sum = 0.0f;
      for (int i = thread; i < n; i += 16) sum = add_rn(sum, shared.p[i]);
      shared.lanes[thread] = sum;
    });
    block.each([&](int thread) {
      if (thread == 0) shared.total = sum_lanes(shared.lanes);
    });
    block.each([&](int thread) {
      for (int i = thread; i < n; i += kThreads) shared.p[i] = div_rn(shared.p[i], shared.total);
    });
  }

  // An expert's rank is the number of those chosen before it. Should a probability be NaN, then all
  // are (the sum is), and none is before another: every rank is made valid first.
  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    softmax(block, shared);
    std::int32_t* ids = a.ids + block.index * a.used;
    float* weights = a.weights + block.index * a.used;
    block.each([&](int thread) {
      for (int r = thread; r < a.used; r += kThreads) {
        ids[r] = r;
        weights[r] = shared.p[r];
      }
    });
    block.each([&](int thread) {
      for (int e = thread; e < a.experts; e += kThreads) {
        int rank = 0;
        for (int other = 0; other < a.experts; ++other) {
          rank += before(shared.p, other, e) ? 1 : 0;
        }
        if (rank >= a.used || shared.p[e] != shared.p[e]) continue;
        ids[rank] = e;
        weights[rank] = shared.p[e];
      }
    });
    if (!a.renormalize) return;
    block.each([&](int thread) {
      if (thread != 0) return;
      float sum = 0.0f;
      for (int r = 0; r < a.used; ++r) sum = add_rn(sum, weights[r]);
      shared.weight_sum = sum < kMinSum ? kMinSum : sum;
    });
    block.each([&](int thread) {
      for (int r = thread; r < a.used; r += kThreads) {
        weights[r] = div_rn(weights[r], shared.weight_sum);
      }
    });
  }
};

}  // namespace strata::cuda
