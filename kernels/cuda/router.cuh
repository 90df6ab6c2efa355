// Softmax over the experts and the choice of the most probable, one block a token.
#pragma once

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/math.cuh"

namespace strata::cuda {

struct RouteKernel {
  static constexpr const char* kName = "route";
  static constexpr int kThreads = 512;
  static constexpr int kSet = 32;  // experts of whom the most probable are candidates
  static constexpr float kMinSum = 6.103515625e-5f;  // 2^-14
  struct Shared {
    float p[kMaxExperts];
    float lanes[16];
    // A set's candidates, from the most probable on; -1 past their end.
    std::int32_t candidates[kMaxExperts];
    float weights[kMaxExperts];
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
      for (int i = thread; i < n; i += kThreads) shared.p[i] = x[i];
    });
    block.each([&](int thread) {
      if (thread >= 16) return;
      float m = -kInfinity;
      STRATA_UNROLL(16)
      for (int i = thread; i < n; i += 16) m = max_of(shared.p[i], m);
      shared.lanes[thread] = m;
    });
    block.each([&](int thread) {
      float top = shared.lanes[0];
      STRATA_UNROLL(16)
      for (int i = 1; i < 16; ++i) top = max_of(shared.lanes[i], top);
      for (int i = thread; i < n; i += kThreads) shared.p[i] = exp_of(sub_rn(shared.p[i], top));
    });
    block.each([&](int thread) {  // lane i adds elements i, i + 16, ... in order
      if (thread >= 16) return;
      float sum = 0.0f;
      STRATA_UNROLL(16)
      for (int i = thread; i < n; i += 16) sum = add_rn(sum, shared.p[i]);
      shared.lanes[thread] = sum;
    });
    block.each([&](int thread) {
      const float total = sum_lanes(shared.lanes);
      for (int i = thread; i < n; i += kThreads) shared.p[i] = div_rn(shared.p[i], total);
    });
  }

  // An expert's rank is the number of those chosen before it, first within its set, then among the
  // candidates of all. Should a probability be NaN, then all are (the sum is), and none is before
  // another: every rank is made valid first.
  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    softmax(block, shared);
    const float* p = shared.p;
    const int kept = a.used < kSet ? a.used : kSet;  // of a set
    const int candidates = (a.experts + kSet - 1) / kSet * kept;
    std::int32_t* ids = a.ids + block.index * a.used;
    block.each([&](int thread) {
      for (int i = thread; i < candidates; i += kThreads) shared.candidates[i] = -1;
      for (int r = thread; r < a.used; r += kThreads) {
        ids[r] = r;
        shared.weights[r] = p[r];
      }
    });
    block.each([&](int thread) {
      for (int e = thread; e < a.experts; e += kThreads) {
        const int first = e / kSet * kSet;
        const int end = first + kSet < a.experts ? first + kSet : a.experts;
        int rank = 0;
        STRATA_UNROLL(8)
        for (int other = first; other < end; ++other) rank += before(p, other, e) ? 1 : 0;
        if (rank < kept) shared.candidates[e / kSet * kept + rank] = e;
      }
    });
    block.each([&](int thread) {
      for (int i = thread; i < candidates; i += kThreads) {
        const int e = shared.candidates[i];
        if (e < 0 || p[e] != p[e]) continue;
        int rank = 0;
        STRATA_UNROLL(8)
        for (int j = 0; j < candidates; ++j) {
          const int other = shared.candidates[j];
          rank += other >= 0 && before(p, other, e) ? 1 : 0;
        }
        if (rank >= a.used) continue;
        ids[rank] = e;
        shared.weights[rank] = p[e];
      }
    });
    block.each([&](int thread) {
      if (thread != 0 || !a.renormalize) return;
      float sum = 0.0f;
      STRATA_UNROLL(8)
      for (int r = 0; r < a.used; ++r) sum = add_rn(sum, shared.weights[r]);
      shared.weight_sum = sum < kMinSum ? kMinSum : sum;
    });
    float* weights = a.weights + block.index * a.used;
    block.lanes([&](int thread) {
      for (int r = thread; r < a.used; r += kThreads) {
        const float w = shared.weights[r];
        weights[r] = a.renormalize ? div_rn(w, shared.weight_sum) : w;
      }
    });
  }
};

}  // namespace strata::cuda
