// Dot products of packed groups with many tokens, on tensor cores, in the order of dot.cuh: a
// segment's sum runs over its blocks in order, and as segments end their sums join as the tree of
// neighbours does, which keeps three of them pending: one in registers, two in shared memory.
//
// A block of 8 warps takes 8 groups of 16 rows and 64 tokens. Blocks of K come two at a time: while
// the products of two are summed, the next two are on their way, activations straight into shared
// memory, weights into registers, from where they are decoded once for all tokens.
//
// What bounds it: an output takes a subtraction, a product of scales and an fma for every block of
// 32 of K, and each is rounded by itself. Those 3 instructions for 64 operations of the tensor
// cores come from the GPU's float units.
#pragma once

#include "kernels/cuda/dot.cuh"
#include "kernels/cuda/tensor.cuh"

namespace strata::cuda {

template <class Format>
struct DotTileKernel {
  static constexpr const char* kName = "dot_tile";
  static constexpr int kWarps = 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kResident = 2;
  static constexpr int kGroups = kWarps;  // of 16 rows; a warp decodes one
  static constexpr int kTokens = kTileTokens;
  static constexpr int kRows = 2;     // groups that a warp multiplies
  static constexpr int kColumns = 4;  // with as many 8 tokens
  static constexpr int kWindow = 8 * kColumns;
  static constexpr int kStage = 2;  // blocks of K at a time
  static constexpr int kParts = 32 / Format::kPartElems;
  static constexpr bool kHasMin = Format::kHasMin;
  static_assert(kThreads == 2 * kStage * kTokens && kWarps * kRows * kWindow == kGroups * kTokens);

  struct Stage {
    Int4 x[kStage][kTokens][3];  // codes; the third sets tokens apart in the memory's banks
    Float4 x_scale[kStage][kTokens / 4];  // as token_slot says
    Float4 x_sum[kHasMin ? kStage : 1][kTokens / 4];
    WeightFragment codes[kStage][kGroups][32];  // of each lane, without the format's offset
    Float2 scale[kStage][kParts][kGroups][8];   // of rows g and g + 8
    Float2 min[kHasMin ? kStage : 1][kGroups][8];
  };
  struct Shared {
    Stage stage[2];
    Float4 pending[2][kRows * kColumns][kThreads];  // of 2 and of 4 segments
  };
  struct Sums {
    float acc[kRows * kColumns][4];
    float pending[kRows * kColumns][4];  // of 1 segment
  };
  // What a thread brings for the others.
  struct Source {
    const std::byte* group;  // its warp's
    const std::byte* x;      // its token's
    typename Format::Codes codes[kStage][2];
    typename Format::RawScales scales;
  };
  // A lane's scales and minima of a group's rows g and g + 8.
  struct RowScales {
    Float2 scale[kParts];
    Float2 min;
  };
  DotArgs a;

  // The part of a block's tile that a warp multiplies. Up to 32 tokens meet a group a warp.
  struct Warp {
    int group;
    int token;
    STRATA_DEVICE Warp(int thread, bool narrow)
        : group(narrow ? thread / 32 : thread / 64 * kRows),
          token(narrow ? 0 : thread / 32 % 2 * kWindow) {}
  };
  // Where a token's scale lies: a lane has those of tokens 2t, 2t + 1, 2t + 8 and 2t + 9 of 16.
  STRATA_DEVICE static float* token_slot(Float4* slots, int token) {
    return &slots[token / 16 * 4 + token % 8 / 2].v[token % 16 / 8 * 2 + token % 2];
  }

  STRATA_DEVICE DotPlace place(std::int64_t index, std::int64_t groups, int group) const {
    const std::int64_t g = index / a.jobs * kGroups + group;
    return place_of(a, kTokens, (g < groups ? g : groups - 1) * a.jobs + index % a.jobs);
  }

  STRATA_DEVICE Source source_of(const DotPlace& p, int thread) const {
    const int token = thread / (2 * kStage);
    const std::int32_t column = p.first + (token < p.count ? token : p.count - 1);
    const std::int32_t row = a.x_rows == nullptr ? column : a.x_rows[column];
    Source s;
    s.group = p.group;
    s.x = a.x + a.x_row_bytes * static_cast<std::size_t>(row);
    return s;
  }

  // Sets blocks base and base + 1 on their way; past the end the last one once more.
  STRATA_DEVICE void fetch(Source& source, int base, int blocks, int thread, Stage& stage) const {
    const auto at = [&](int i) { return base + i < blocks ? base + i : blocks - 1; };
    const int lane = thread % 32;
    STRATA_UNROLL(2)
    for (int i = 0; i < kStage; ++i) {
      source.codes[i][0] = Format::load_codes(source.group, at(i), lane / 4, lane % 4);
      source.codes[i][1] = Format::load_codes(source.group, at(i), lane / 4 + 8, lane % 4);
    }
    source.scales = Format::load_scales(source.group, at(lane / 16), lane % 16);
    const int token = thread / (2 * kStage);
    const int i = thread / 2 % kStage;
    const std::byte* x = source.x + at(i) * static_cast<std::int64_t>(kPanelBlockBytes);
    copy_async<16>(&stage.x[i][token][thread % 2], x + 16 * (thread % 2));
    if (thread % 2 == 0) {
      copy_async<4>(token_slot(stage.x_scale[i], token), x + 32 + offsetof(BlockMeta, scale));
    } else if (kHasMin) {
      copy_async<4>(token_slot(stage.x_sum[i], token), x + 32 + offsetof(BlockMeta, scaled_sum));
    }
  }

  // Four codes less the format's offset, as signed bytes: no carry crosses a byte.
  STRATA_DEVICE static std::uint32_t centred(std::uint32_t codes) {
    if constexpr (Format::kOffset == 0) return codes;
    return ((codes | 0x80808080U) - Format::kOffset * 0x01010101U) ^ 0x80808080U;
  }

  // Decodes what fetch brought of weights.
  STRATA_DEVICE static void unpack(const Source& source, int thread, Stage& stage) {
    const int warp = thread / 32;
    const int lane = thread % 32;
    STRATA_UNROLL(2)
    for (int i = 0; i < kStage; ++i) {
      const CodePair low = Format::codes(source.codes[i][0], lane % 4);
      const CodePair high = Format::codes(source.codes[i][1], lane % 4);
      stage.codes[i][warp][lane] = {
          {centred(low.low), centred(high.low), centred(low.high), centred(high.high)}};
    }
    const int i = lane / 16;
    const int row = lane % 16;
    const Scales scales = Format::scales(source.scales, row);
    STRATA_UNROLL(2)
    for (int part = 0; part < kParts; ++part) {
      stage.scale[i][part][warp][row % 8].v[row / 8] = scales.part[part];
    }
    if constexpr (kHasMin) stage.min[i][warp][row % 8].v[row / 8] = scales.min;
  }

  // A segment has ended: `done` segments with it.
  STRATA_DEVICE static void join(Sums& s, int done, int thread, Shared& shared) {
    STRATA_UNROLL(8)
    for (int j = 0; j < kRows * kColumns; ++j) {
      float(&acc)[4] = s.acc[j];
      if (done % 2 == 1) {
        STRATA_UNROLL(4)
        for (int i = 0; i < 4; ++i) s.pending[j][i] = acc[i];
      } else {
        Float4 v;
        STRATA_UNROLL(4)
        for (int i = 0; i < 4; ++i) v.v[i] = add_rn(s.pending[j][i], acc[i]);
        if (done % 4 == 0) v = sum(shared.pending[0][j][thread], v);
        if (done == 8) v = sum(shared.pending[1][j][thread], v);
        if (done == 8) {
          STRATA_UNROLL(4)
          for (int i = 0; i < 4; ++i) s.pending[j][i] = v.v[i];  // all
        } else {
          shared.pending[done == 4 ? 1 : 0][j][thread] = v;
        }
      }
      STRATA_UNROLL(4)
      for (int i = 0; i < 4; ++i) acc[i] = 0.0f;
    }
  }
  STRATA_DEVICE static Float4 sum(const Float4& x, const Float4& y) {
    Float4 v;
    STRATA_UNROLL(4)
    for (int i = 0; i < 4; ++i) v.v[i] = add_rn(x.v[i], y.v[i]);
    return v;
  }

  // Adds the products of one part of a block, of 16 rows with 8 tokens.
  STRATA_DEVICE static void accumulate(const DotFragment& d, const RowScales& rows, int part,
                                       const float* x_scale, const float* x_sum, float (&acc)[4]) {
    STRATA_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const float scale = mul_rn(rows.scale[part].v[i / 2], x_scale[i % 2]);
      acc[i] = fma_rn(unbias(d.c[i]), scale, acc[i]);
      if (kHasMin && part == kParts - 1) acc[i] = fma_rn(rows.min.v[i / 2], x_sum[i % 2], acc[i]);
    }
  }

  // One block of K; kUsed groups a warp.
  template <int kUsed>
  STRATA_DEVICE void add_block(const Block<kThreads>& block, const Stage& stage, int i, int tokens,
                               PerThread<Sums, kThreads>& sums) const {
    PerThread<Fragments<kUsed, 2>, kThreads> fragments;
    PerThread<RowScales[kUsed], kThreads> rows;
    block.lanes([&](int thread) {
      const Warp warp(thread, kUsed == 1);
      const int lane = thread % 32;
      STRATA_UNROLL(2)
      for (int r = 0; r < kUsed; ++r) {
        fragments[thread].w[r] = stage.codes[i][warp.group + r][lane];
        STRATA_UNROLL(2)
        for (int part = 0; part < kParts; ++part) {
          rows[thread][r].scale[part] = stage.scale[i][part][warp.group + r][lane / 4];
        }
        if constexpr (kHasMin) rows[thread][r].min = stage.min[i][warp.group + r][lane / 4];
      }
    });
    STRATA_UNROLL(2)
    for (int pair = 0; pair < kColumns / 2; ++pair) {  // of columns
      block.lanes([&](int thread) {
        const int token = Warp(thread, kUsed == 1).token + 16 * pair;
        load_tokens(stage.x[i][token], sizeof stage.x[i][0], thread % 32, fragments[thread].x);
      });
      STRATA_UNROLL(2)
      for (int part = 0; part < kParts; ++part) {
        STRATA_UNROLL(2)
        for (int r = 0; r < kUsed; ++r) {
          multiply(block, fragments, r, 0, kParts == 1 ? -1 : part);
          multiply(block, fragments, r, 1, kParts == 1 ? -1 : part);
        }
        block.lanes([&](int thread) {
          const int token = Warp(thread, kUsed == 1).token + 16 * pair;
          if (token >= tokens) return;
          const int slot = token / 4 + thread % 4;
          const Float4 x_scale = stage.x_scale[i][slot];
          Float4 x_sum{};
          if constexpr (kHasMin) x_sum = stage.x_sum[i][slot];
          STRATA_UNROLL(2)
          for (int r = 0; r < kUsed; ++r) {
            STRATA_UNROLL(2)
            for (int c = 0; c < 2; ++c) {
              accumulate(fragments[thread].d[r][c], rows[thread][r], part, x_scale.v + 2 * c,
                         x_sum.v + 2 * c, sums[thread].acc[r * kColumns + 2 * pair + c]);
            }
          }
        });
      }
    }
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    if (!has_job(a, block.index)) return;
    std::int64_t groups = 0;
    for (int i = 0; i < a.target_count; ++i) groups += a.targets[i].groups;
    const int tokens = place(block.index, groups, 0).count;
    if (tokens <= kWindow) {
      walk<1>(block, groups, tokens, shared);
    } else {
      walk<kRows>(block, groups, tokens, shared);
    }
  }

  template <int kUsed>
  STRATA_DEVICE void walk(const Block<kThreads>& block, std::int64_t groups, int tokens,
                          Shared& shared) const {
    const int blocks = static_cast<int>(a.cols / 32);
    PerThread<Source, kThreads> source;
    PerThread<Sums, kThreads> sums;
    int segment = 0;
    const auto end_segments = [&](int done) {
      while (segment < 8 && static_cast<int>((segment + 1LL) * blocks / 8) == done) {
        ++segment;
        block.lanes([&](int thread) { join(sums[thread], segment, thread, shared); });
      }
    };
    block.each([&](int thread) {
      sums[thread] = Sums{};
      source[thread] = source_of(place(block.index, groups, thread / 32), thread);
      fetch(source[thread], 0, blocks, thread, shared.stage[0]);
      unpack(source[thread], thread, shared.stage[0]);
      copies_done();
    });
    end_segments(0);
    for (int base = 0; base < blocks; base += kStage) {
      const Stage& stage = shared.stage[base / kStage % 2];
      Stage& next = shared.stage[base / kStage % 2 ^ 1];
      block.lanes([&](int thread) {
        if (base + kStage < blocks) fetch(source[thread], base + kStage, blocks, thread, next);
      });
      for (int i = 0; i < kStage && base + i < blocks; ++i) {
        add_block<kUsed>(block, stage, i, tokens, sums);
        end_segments(base + i + 1);
      }
      block.each([&](int thread) {
        if (base + kStage < blocks) unpack(source[thread], thread, next);
        copies_done();
      });
    }
    block.lanes([&](int thread) {
      const Warp warp(thread, kUsed == 1);
      for (int r = 0; r < kUsed; ++r) {
        if (block.index / a.jobs * kGroups + warp.group + r >= groups) continue;
        write(place(block.index, groups, warp.group + r), warp.token, thread % 32,
              &sums[thread].pending[r * kColumns]);
      }
    });
  }

  STRATA_DEVICE void write(const DotPlace& p, int first, int lane, const float (*sums)[4]) const {
    STRATA_UNROLL(4)
    for (int j = 0; j < kColumns; ++j) {
      STRATA_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const int token = first + 8 * j + 2 * (lane % 4) + i % 2;
        if (token >= p.count) continue;
        const std::int32_t column = p.first + token;
        const std::int32_t at = a.out_rows == nullptr ? column : a.out_rows[column];
        float* out = p.target->out + at * p.target->out_width + p.row + lane / 4 + 8 * (i / 2);
        *out = p.target->accumulate ? add_rn(*out, sums[j][i]) : sums[j][i];
      }
    }
  }
};

}  // namespace strata::cuda
