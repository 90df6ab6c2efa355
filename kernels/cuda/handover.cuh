// A layer of a recorded window on the device's side of the hand-over: which of the chosen experts
// it holds, what it asks the host for, and the sum of both sides' rows.
#pragma once

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/math.cuh"

namespace strata::cuda {

// The number of a layer's hand-over, of all since the device was made. Numbers only rise.
STRATA_DEVICE std::uint64_t step_of(const HandoverStep& s) {
  return (*s.window) * static_cast<std::uint64_t>(s.layers) + static_cast<std::uint64_t>(s.layer) +
         1;
}

// One block: a window that is recorded has few rows. An expert's job is written by the first choice
// of it; jobs and their columns stand in the order of those.
struct DispatchKernel {
  static constexpr const char* kName = "dispatch";
  static constexpr int kThreads = kMaxChoices;
  struct Shared {
    std::int32_t id[kMaxChoices];
    std::int32_t members[kMaxChoices];  // of the job that this choice leads, or 0
    std::int32_t misses[kMaxChoices];
  };
  DispatchArgs a;

  // Writes choice `c`'s job, if it leads one.
  STRATA_DEVICE void write_job(int c, int choices, const std::byte* blob,
                               const Shared& shared) const {
    std::int32_t job = 0;
    std::int32_t column = 0;
    for (int i = 0; i < c; ++i) {
      job += shared.members[i] > 0 ? 1 : 0;
      column += shared.members[i];
    }
    if (c == choices - 1) *a.job_count = job + (shared.members[c] > 0 ? 1 : 0);
    if (shared.members[c] == 0) return;
    a.jobs[job] = {blob, column, shared.members[c]};
    for (int i = c; i < choices; ++i) {
      if (shared.id[i] != shared.id[c]) continue;
      a.x_rows[column] = i / a.used;
      a.out_rows[column] = i;
      ++column;
    }
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    const int choices = a.rows * a.used;
    PerThread<const std::byte*, kThreads> blob;
    block.each([&](int thread) {
      shared.misses[thread] = 0;
      if (thread >= choices) return;
      const std::int32_t id = a.ids[thread];
      blob[thread] = a.blobs[id];
      shared.id[thread] = id;
      shared.misses[thread] = blob[thread] == nullptr ? 1 : 0;
      a.held[thread] = blob[thread] == nullptr ? 0 : 1;
      a.post.ids[thread] = id;
      a.post.weights[thread] = a.weights[thread];
    });
    block.each([&](int thread) {
      if (thread >= choices) return;
      std::int32_t members = 0;
      bool leads = blob[thread] != nullptr;
      for (int i = 0; i < choices; ++i) {
        if (shared.id[i] != shared.id[thread]) continue;
        ++members;
        leads = leads && i >= thread;
      }
      shared.members[thread] = leads ? members : 0;
    });
    block.each([&](int thread) {
      if (thread < choices) write_job(thread, choices, blob[thread], shared);
      bool missed = false;
      for (int i = 0; i < choices; ++i) missed = missed || shared.misses[i] != 0;
      if (missed) {
        const std::int64_t floats = a.rows * a.width;
        for (std::int64_t i = thread; i < floats; i += kThreads) a.post.x[i] = a.x[i];
      }
      // What this thread wrote is there for the host before the step is.
      if (missed || thread < choices) fence_system();
    });
    block.each([&](int thread) {
      if (thread == 0) store_release_system(a.post.step, step_of(a.step));
    });
  }
};

// x[t] += sum over ranks, in order, of weight * part, where the host's parts come from its memory
// once it has replied. One block a row.
struct CombineHeldKernel {
  static constexpr const char* kName = "combine_held";
  static constexpr std::int64_t kMostPolls = std::int64_t{1} << 24;  // of about 2 us, over the link
  static constexpr int kThreads = 256;
  struct Shared {
    std::int32_t missed;
  };
  CombineHeldArgs a;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    const std::int64_t first = block.index * a.ranks;  // choice
    block.each([&](int thread) {
      if (thread != 0) return;
      bool missed = false;
      for (int r = 0; r < a.ranks; ++r) missed = missed || a.held[first + r] == 0;
      if (missed) {
        const std::uint64_t step = step_of(a.step);
        std::int64_t polls = 0;
        while (load_acquire_system(a.replied) < step && ++polls < kMostPolls) pause();
        if (polls == kMostPolls) store_release_system(a.gave_up, step);
      }
      shared.missed = missed ? 1 : 0;
    });
    block.each([&](int thread) {
      for (std::int64_t i = thread; i < a.width; i += kThreads) {
        float acc = 0.0f;
        for (int r = 0; r < a.ranks; ++r) {
          const std::int64_t at = (first + r) * a.width + i;
          const float part = a.held[first + r] != 0 ? a.parts[at] : load_host(a.host_parts + at);
          acc = fma_rn(a.weights[first + r], part, acc);
        }
        float* x = a.x + block.index * a.width + i;
        *x = add_rn(*x, acc);
      }
    });
  }
};

}  // namespace strata::cuda
