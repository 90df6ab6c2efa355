// Dot products of packed groups with many tokens, on tensor cores, in the order of dot.cuh: a
// segment's sum runs over its blocks in order, and as segments end their sums join as the tree of
// neighbours does, which keeps three of them pending.
//
// A block of 4 warps takes 4 groups of 16 rows and 32 tokens, whose activations are staged in
// shared memory some blocks of K at a time.
#pragma once

#include "kernels/cuda/dot.cuh"
#include "kernels/cuda/tensor.cuh"

namespace strata::cuda {

template <class Format>
struct DotTileKernel {
  static constexpr const char* kName = "dot_tile";
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kTokens = kTileTokens;
  static constexpr int kColumns = kTokens / 8;  // products of 8 tokens
  static constexpr int kStage = 8;              // blocks of K staged at a time
  static constexpr int kParts = 32 / Format::kPartElems;
  static constexpr int kPieces = kPanelBlockBytes / sizeof(Int4);  // of a token and block
  struct Shared {
    Int4 x[kStage][kTokens][kPieces];
  };
  // Sums of 16 rows x kTokens as the product's fragments lie: [column][fragment element].
  using Sums = float[kColumns][4];
  struct State {
    Sums acc;
    Sums pending[3];  // of 1, 2 and 4 segments
  };
  DotArgs a;

  STRATA_DEVICE static BlockMeta meta(const Shared& shared, int stage, int token) {
    return bytes_as<BlockMeta>(shared.x[stage][token][2]);
  }
  STRATA_DEVICE static std::uint32_t codes(const Shared& shared, int stage, int token, int chunk) {
    return static_cast<std::uint32_t>(shared.x[stage][token][chunk / 4].v[chunk % 4]);
  }

  // A segment has ended: `done` segments with it.
  STRATA_DEVICE static void join(State& s, int done) {
    STRATA_UNROLL(4)
    for (int j = 0; j < kColumns; ++j) {
      STRATA_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        float v = s.acc[j][i];
        s.acc[j][i] = 0.0f;
        if (done % 2 == 1) {
          s.pending[0][j][i] = v;
          continue;
        }
        v = add_rn(s.pending[0][j][i], v);
        if (done % 4 == 2) {
          s.pending[1][j][i] = v;
          continue;
        }
        v = add_rn(s.pending[1][j][i], v);
        if (done == 4) {
          s.pending[2][j][i] = v;
        } else {
          s.acc[j][i] = add_rn(s.pending[2][j][i], v);  // all 8
        }
      }
    }
  }

  STRATA_DEVICE void fetch(const DotPlace& p, std::int64_t first, int count, int thread,
                           Shared& shared) const {
    for (int i = thread; i < kTokens * count * kPieces; i += kThreads) {
      const int token = i / (count * kPieces);
      const int piece = i % (count * kPieces);
      const std::int32_t column = p.first + (token < p.count ? token : p.count - 1);
      const std::int32_t row = a.x_rows == nullptr ? column : a.x_rows[column];
      const std::byte* x = a.x + a.x_row_bytes * static_cast<std::size_t>(row) +
                           first * static_cast<std::int64_t>(kPanelBlockBytes);
      shared.x[piece / kPieces][token][piece % kPieces] = load<Int4>(x + 16 * piece);
    }
  }

  // Adds the products of one part of a block, of 8 tokens.
  STRATA_DEVICE static void accumulate(const DotFragment& d, const Scales (&scales)[2], int part,
                                       const BlockMeta& m0, const BlockMeta& m1, float (&acc)[4]) {
    STRATA_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const BlockMeta& m = i % 2 == 0 ? m0 : m1;
      const Scales& s = scales[i / 2];
      acc[i] = fma_rn(static_cast<float>(d.c[i]), mul_rn(s.part[part], m.scale), acc[i]);
      if (Format::kHasMin && part == kParts - 1) acc[i] = fma_rn(s.min, m.scaled_sum, acc[i]);
    }
  }
  STRATA_DEVICE static std::int32_t start(const BlockMeta& m, int part) {
    if constexpr (Format::kOffset == 0) return 0;
    return -Format::kOffset * (kParts == 1 ? m.sum : part == 0 ? m.sum_low : m.sum - m.sum_low);
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    if (!has_job(a, block.index)) return;
    PerThread<DotPlace, kThreads> place;
    PerThread<State, kThreads> state;
    PerThread<WeightFragment, kThreads> weights;
    PerThread<TokenFragment, kThreads> tokens;
    PerThread<DotFragment, kThreads> dots;
    block.lanes([&](int thread) {
      place[thread] = place_of(a, kTokens, block.index, kWarps, thread / 32);
      state[thread] = State{};
    });
    const std::int64_t blocks = a.cols / 32;
    int segment = 0;
    const auto end_segments = [&](std::int64_t done) {
      while (segment < 8 && (segment + 1) * blocks / 8 == done) {
        ++segment;
        block.lanes([&](int thread) { join(state[thread], segment); });
      }
    };
    end_segments(0);
    for (std::int64_t base = 0; base < blocks; base += kStage) {
      const int count = static_cast<int>(blocks - base < kStage ? blocks - base : kStage);
      block.each([&](int thread) { fetch(place[thread], base, count, thread, shared); });
      for (int i = 0; i < count; ++i) {
        add_block(block, base + i, i, shared, place, state, weights, tokens, dots);
        end_segments(base + i + 1);
      }
      block.each([](int) {});
    }
    block.lanes([&](int thread) {
      if (place[thread].exists) write(place[thread], thread, state[thread]);
    });
  }

  STRATA_DEVICE void add_block(const Block<kThreads>& block, std::int64_t b, int stage,
                               const Shared& shared, PerThread<DotPlace, kThreads>& place,
                               PerThread<State, kThreads>& state,
                               PerThread<WeightFragment, kThreads>& weights,
                               PerThread<TokenFragment, kThreads>& tokens,
                               PerThread<DotFragment, kThreads>& dots) const {
    PerThread<WeightBlock, kThreads> w;
    block.lanes([&](int thread) {
      const int g = thread % 32 / 4;
      const int t = thread % 4;
      w[thread] =
          unpack<Format>(Format::template fetch<2, 1>(place[thread].group, b, 2 * g, t), g, t);
      weights[thread] = w[thread].codes;
    });
    STRATA_UNROLL(4)
    for (int j = 0; j < kColumns; ++j) {
      block.lanes([&](int thread) {
        const int token = 8 * j + thread % 32 / 4;
        const int t = thread % 4;
        tokens[thread] = {{codes(shared, stage, token, t), codes(shared, stage, token, t + 4)}};
      });
      STRATA_UNROLL(2)
      for (int part = 0; part < kParts; ++part) {
        block.lanes([&](int thread) {
          const int token = 8 * j + 2 * (thread % 4);
          const std::int32_t c0 = start(meta(shared, stage, token), part);
          const std::int32_t c1 = start(meta(shared, stage, token + 1), part);
          dots[thread] = {{c0, c1, c0, c1}};
        });
        multiply(block, dots, weights, tokens, kParts == 1 ? -1 : part);
        block.lanes([&](int thread) {
          const int token = 8 * j + 2 * (thread % 4);
          accumulate(dots[thread], w[thread].scales, part, meta(shared, stage, token),
                     meta(shared, stage, token + 1), state[thread].acc[j]);
        });
      }
    }
  }

  STRATA_DEVICE void write(const DotPlace& p, int thread, const State& state) const {
    STRATA_UNROLL(4)
    for (int j = 0; j < kColumns; ++j) {
      STRATA_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * j + 2 * (thread % 4) + i % 2;
        if (token >= p.count) continue;
        const std::int32_t column = p.first + token;
        const std::int32_t at = a.out_rows == nullptr ? column : a.out_rows[column];
        float* out = p.target->out + at * p.target->out_width + p.row + thread % 32 / 4 * 2 + i / 2;
        const float y = state.acc[j][i];
        *out = p.target->accumulate ? add_rn(*out, y) : y;
      }
    }
  }
};

}  // namespace strata::cuda
