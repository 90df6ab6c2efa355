// int8 matrix products of a warp, 16 weight rows x 8 tokens x 32 elements: on tensor cores, or, for
// tests on the host, by the book. Exact either way.
#pragma once

#include "kernels/cuda/formats.cuh"

namespace strata::cuda {

// A lane's share, with g = lane / 4 and t = lane % 4. The rows of the product are numbered so that
// a lane's two are neighbours: the instruction's g and g + 8 are our 2g and 2g + 1.
struct WeightFragment {
  std::uint32_t a[4];  // codes 4t..4t+3 of rows 2g, 2g + 1; the same of elements 16 later
};
// The same of a packed block, with the two rows' scales.
struct WeightBlock {
  WeightFragment codes;
  Scales scales[2];
};
template <class Format>
STRATA_DEVICE WeightBlock unpack(const typename Format::template Words<2, 1>& words, int g, int t) {
  WeightBlock b;
  STRATA_UNROLL(2)
  for (int r = 0; r < 2; ++r) {
    const CodePair pair = Format::codes(words, r, 0, t);
    b.codes.a[r] = pair.low;
    b.codes.a[r + 2] = pair.high;
    b.scales[r] = Format::scales(words, r, 2 * g);
  }
  return b;
}
struct TokenFragment {
  std::uint32_t b[2];  // codes 4t..4t+3 of token g; the same of elements 16 later
};
struct DotFragment {
  std::int32_t c[4];  // row 2g with tokens 2t, 2t + 1; row 2g + 1 with the same
};

// An int32 below 2^22 in magnitude, added to these bits, makes the float 1.5 * 2^23 + that int32:
// a product that starts here becomes a float by one exact subtraction.
inline constexpr std::int32_t kFloatBias = 0x4b400000;
STRATA_DEVICE float unbias(std::int32_t biased) {
  return sub_rn(bits_to_float(static_cast<std::uint32_t>(biased)), 12582912.0f);
}

#if defined(__CUDACC__)
// 8 rows x 8 tokens x 16 elements, of which the larger products are made on compute capability 7.5.
STRATA_DEVICE void mma_8(std::int32_t& c0, std::int32_t& c1, std::uint32_t a, std::uint32_t b) {
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1},{%2},{%3},{%0,%1};"
      : "+r"(c0), "+r"(c1)
      : "r"(a), "r"(b));
}
STRATA_DEVICE void mma_16(DotFragment& d, const WeightFragment& w, const TokenFragment& x,
                          const DotFragment& start, int half) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3},{%4,%5},{%6},{%7,%8,%9,%10};"
      : "=r"(d.c[0]), "=r"(d.c[1]), "=r"(d.c[2]), "=r"(d.c[3])
      : "r"(w.a[2 * half]), "r"(w.a[2 * half + 1]), "r"(x.b[half]), "r"(start.c[0]),
        "r"(start.c[1]), "r"(start.c[2]), "r"(start.c[3]));
#else
  d = start;
  mma_8(d.c[0], d.c[1], w.a[2 * half], x.b[half]);
  mma_8(d.c[2], d.c[3], w.a[2 * half + 1], x.b[half]);
#endif
}
STRATA_DEVICE void mma_32(DotFragment& d, const WeightFragment& w, const TokenFragment& x,
                          const DotFragment& start) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13};"
      : "=r"(d.c[0]), "=r"(d.c[1]), "=r"(d.c[2]), "=r"(d.c[3])
      : "r"(w.a[0]), "r"(w.a[1]), "r"(w.a[2]), "r"(w.a[3]), "r"(x.b[0]), "r"(x.b[1]),
        "r"(start.c[0]), "r"(start.c[1]), "r"(start.c[2]), "r"(start.c[3]));
#else
  mma_16(d, w, x, start, 0);
  mma_16(d, w, x, d, 1);
#endif
}
#elif defined(STRATA_GPU)
// Without such instructions: token by token, the products of a lane's chunks, added over the four
// lanes of its rows.
STRATA_DEVICE void mma_part(DotFragment& d, const WeightFragment& w, const TokenFragment& x,
                            int half) {
  constexpr int kWarp = 32;
  const int t = static_cast<int>(threadIdx.x) % 4;
  for (int token = 0; token < 8; ++token) {
    const int b = __shfl(static_cast<int>(x.b[half]), 4 * token + t, kWarp);
    for (int r = 0; r < 2; ++r) {
      std::int32_t sum = dot4(0, w.a[2 * half + r], b);
      sum += __shfl_xor(sum, 1, kWarp);
      sum += __shfl_xor(sum, 2, kWarp);
      if (token / 2 == t) d.c[2 * r + token % 2] += sum;
    }
  }
}
STRATA_DEVICE void mma_16(DotFragment& d, const WeightFragment& w, const TokenFragment& x,
                          const DotFragment& start, int half) {
  d = start;
  mma_part(d, w, x, half);
}
STRATA_DEVICE void mma_32(DotFragment& d, const WeightFragment& w, const TokenFragment& x,
                          const DotFragment& start) {
  d = start;
  mma_part(d, w, x, 0);
  mma_part(d, w, x, 1);
}
#endif

// d += w x for every warp of the block; with `half` 0 or 1 of the first or last 16 elements only,
// with -1 of all. No barrier: a warp stands alone.
template <int kThreads>
STRATA_DEVICE void multiply(const Block<kThreads>& block, PerThread<DotFragment, kThreads>& d,
                            PerThread<WeightFragment, kThreads>& w,
                            PerThread<TokenFragment, kThreads>& x, int half = -1) {
#ifdef STRATA_GPU
  static_cast<void>(block);
  const int thread = static_cast<int>(threadIdx.x);
  if (half < 0) {
    mma_32(d[thread], w[thread], x[thread], d[thread]);
  } else {
    mma_16(d[thread], w[thread], x[thread], d[thread], half);
  }
#else
  block.lanes([&](int thread) {
    const int warp = thread / 32 * 32;
    const int g = thread % 32 / 4;
    const int t = thread % 4;
    for (int i = 0; i < 4; ++i) {
      const int token = 2 * t + i % 2;
      for (int k = half == 1 ? 1 : 0; k < (half == 0 ? 1 : 2); ++k) {
        for (int lane = 0; lane < 4; ++lane) {
          d[thread].c[i] = dot4(d[thread].c[i], w[warp + 4 * g + lane].a[2 * k + i / 2],
                                static_cast<std::int32_t>(x[warp + 4 * token + lane].b[k]));
        }
      }
    }
  });
#endif
}

// What a lane has of kRows x 16 weight rows and kColumns x 8 tokens.
template <int kRows, int kColumns>
struct Fragments {
  WeightFragment w[kRows];
  TokenFragment x[kColumns];
  DotFragment d[kRows][kColumns];
};

// In every lane's Fragments f: d[row][column] = kFloatBias + w[row] x[column]; with `half` 0 or 1
// of the first or last 16 elements only, with -1 of all. No barrier: a warp stands alone.
template <int kThreads, class Operands>
STRATA_DEVICE void multiply_biased(const Block<kThreads>& block,
                                   PerThread<Operands, kThreads>& operands, int row, int column,
                                   int half = -1) {
#ifdef STRATA_GPU
  static_cast<void>(block);
  auto& f = operands[static_cast<int>(threadIdx.x)].f;
  constexpr DotFragment kStart = {{kFloatBias, kFloatBias, kFloatBias, kFloatBias}};
  if (half < 0) {
    mma_32(f.d[row][column], f.w[row], f.x[column], kStart);
  } else {
    mma_16(f.d[row][column], f.w[row], f.x[column], kStart, half);
  }
#else
  block.lanes([&](int thread) {
    const int warp = thread / 32 * 32;
    const int g = thread % 32 / 4;
    const int t = thread % 4;
    for (int i = 0; i < 4; ++i) {
      const int token = 2 * t + i % 2;
      std::int32_t dot = kFloatBias;
      for (int k = half == 1 ? 1 : 0; k < (half == 0 ? 1 : 2); ++k) {
        for (int lane = 0; lane < 4; ++lane) {
          dot = dot4(dot, operands[warp + 4 * g + lane].f.w[row].a[2 * k + i / 2],
                     static_cast<std::int32_t>(operands[warp + 4 * token + lane].f.x[column].b[k]));
        }
      }
      operands[thread].f.d[row][column].c[i] = dot;
    }
  });
#endif
}

// Codes of 16 tokens, 32 bytes each and `stride` bytes apart in shared memory (multiples of 16), as
// two fragments. All lanes of a warp come here alike.
STRATA_DEVICE void load_tokens(const void* rows, int stride, int lane, TokenFragment (&x)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  // Lane i names a row of 16 bytes of matrix i / 8: the halves of the first 8 tokens, then of 8.
  const int row = lane / 16 * 8 + lane % 8;
  const auto* from = static_cast<const std::byte*>(rows) + row * stride + lane / 8 % 2 * 16;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0].b[0]), "=r"(x[0].b[1]), "=r"(x[1].b[0]), "=r"(x[1].b[1])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(from)))
               : "memory");
#else
  for (int i = 0; i < 4; ++i) {
    const auto* from = static_cast<const std::byte*>(rows) + (i / 2 * 8 + lane / 4) * stride;
    __builtin_memcpy(&x[i / 2].b[i % 2], from + 16 * (i % 2) + 4 * (lane % 4), 4);
  }
#endif
}

}  // namespace strata::cuda
