// Dot products of packed groups with many tokens, on tensor cores, in the order of dot.cuh: a
// segment's sum runs over its blocks in order, and as segments end their sums join as the tree of
// neighbours does, which keeps three of them pending: one in registers, two in shared memory.
//
// A block of 4 warps takes 4 groups of 16 rows and 64 tokens. Blocks of K come two at a time: while
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

template <class Format, int kWarpCount, int kWarpRows, int kBlocks>
struct DotTileKernel {
  static constexpr const char* kName = "dot_tile";
  static constexpr int kWarps = kWarpCount;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kResident = kBlocks;
  static constexpr int kGroups = kWarpCount * kWarpRows / 2;  // of 16 rows
  static constexpr int kTokens = kTileTokens;
  static constexpr int kRows = kWarpRows;  // groups that a warp multiplies
  static constexpr int kColumns = 4;       // with as many 8 tokens
  static constexpr int kWindow = 8 * kColumns;
  static constexpr int kStage = 2;                                 // blocks of K at a time
  static constexpr int kDecoded = kGroups / kWarps;                // groups that a warp decodes
  static constexpr int kBringers = kThreads / (kStage * kTokens);  // threads of a token's block
  static constexpr int kParts = 32 / Format::kPartElems;
  static constexpr bool kHasMin = Format::kHasMin;
  static_assert(kWarps * kRows * kWindow == kGroups * kTokens);

  struct Stage {
    Int4 x[kStage][kTokens][3];  // codes; the third sets tokens apart in the memory's banks
    Float4 x_scale[kStage][kTokens / 4];  // as token_slot says
    Float4 x_sum[kHasMin ? kStage : 1][kTokens / 4];
    WeightFragment codes[kStage][kGroups][32];  // of each lane, without the format's offset
    Float2 scale[kStage][kParts][kGroups][8];   // of rows 2g and 2g + 1
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
    const std::byte* group[kDecoded];
    const std::byte* x;  // of a token
    typename Format::template Words<2, 1> words[kDecoded][kStage];
  };
  // A lane's scales and minima of a group's rows 2g and 2g + 1.
  struct RowScales {
    Float2 scale[kParts];
    Float2 min;
  };
  DotArgs a;

  // The part of a block's tile that a warp multiplies. Up to 32 tokens take half the groups a warp.
  struct Warp {
    int group;
    int token;
    STRATA_DEVICE Warp(int thread, bool narrow)
        : group(narrow ? thread / 32 * (kRows / 2) : thread / 64 * kRows),
          token(narrow ? 0 : thread / 32 % 2 * kWindow) {}
  };
  // Where a token's scale lies: a lane has those of tokens 2t, 2t + 1, 2t + 8 and 2t + 9 of 16.
  STRATA_DEVICE static float* token_slot(Float4* slots, int token) {
    return &slots[token / 16 * 4 + token % 8 / 2].v[token % 16 / 8 * 2 + token % 2];
  }

  STRATA_DEVICE DotPlace place(std::int64_t index, int group) const {
    return place_of(a, kTokens, index, kGroups, group);
  }

  STRATA_DEVICE Source source_of(std::int64_t index, int thread) const {
    Source s;
    DotPlace p{};
    STRATA_UNROLL(2)
    for (int q = 0; q < kDecoded; ++q) {
      p = place(index, thread / 32 * kDecoded + q);
      s.group[q] = kept(p.group);
    }
    const int token = thread / (kStage * kBringers);
    const std::int32_t column = p.first + (token < p.count ? token : p.count - 1);
    const std::int32_t row = a.x_rows == nullptr ? column : a.x_rows[column];
    s.x = kept(a.x + a.x_row_bytes * static_cast<std::size_t>(row));
    return s;
  }

  // Sets two blocks of K on their way.
  STRATA_DEVICE void fetch(Source& source, int first, int second, int thread, Stage& stage) const {
    const int lane = thread % 32;
    STRATA_UNROLL(2)
    for (int q = 0; q < kDecoded; ++q) {
      STRATA_UNROLL(2)
      for (int i = 0; i < kStage; ++i) {
        const int block = i == 0 ? first : second;
        source.words[q][i] =
            Format::template fetch<2, 1>(source.group[q], block, lane / 4 * 2, lane % 4);
      }
    }
    const int i = thread / kBringers % kStage;
    const int token = thread / (kStage * kBringers);
    const std::byte* x =
        source.x + (i == 0 ? first : second) * static_cast<std::int64_t>(kPanelBlockBytes);
    STRATA_UNROLL(2)
    for (int half = thread % kBringers; half < 2; half += kBringers) {
      copy_async<16>(&stage.x[i][token][half], x + 16 * half);
    }
    if (thread % kBringers == 0) {
      copy_async<4>(token_slot(stage.x_scale[i], token), x + 32 + offsetof(BlockMeta, scale));
    }
    if (kHasMin && thread % kBringers == kBringers - 1) {
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
    const int lane = thread % 32;
    STRATA_UNROLL(2)
    for (int q = 0; q < kDecoded; ++q) {
      const int group = thread / 32 * kDecoded + q;
      STRATA_UNROLL(2)
      for (int i = 0; i < kStage; ++i) {
        const WeightBlock b = strata::cuda::unpack<Format>(source.words[q][i], lane / 4, lane % 4);
        WeightFragment& codes = stage.codes[i][group][lane];
        STRATA_UNROLL(4)
        for (int c = 0; c < 4; ++c) codes.a[c] = centred(b.codes.a[c]);
        if (lane % 4 != 0) continue;
        STRATA_UNROLL(2)
        for (int part = 0; part < kParts; ++part) {
          stage.scale[i][part][group][lane / 4] = {
              {b.scales[0].part[part], b.scales[1].part[part]}};
        }
        if constexpr (kHasMin) stage.min[i][group][lane / 4] = {{b.scales[0].min, b.scales[1].min}};
      }
    }
  }

  // A segment has ended: it joins those before it that make a whole with it, 2^kLevel of them.
  template <int kUsed, int kLevel>
  STRATA_DEVICE static void join(Sums& s, int thread, Shared& shared) {
    STRATA_UNROLL(16)
    for (int j = 0; j < kUsed * kColumns; ++j) {
      Float4 v = bytes_as<Float4>(s.acc[j]);
      if constexpr (kLevel >= 1) v = sum(bytes_as<Float4>(s.pending[j]), v);
      if constexpr (kLevel >= 2) v = sum(shared.pending[0][j][thread], v);
      if constexpr (kLevel == 3) v = sum(shared.pending[1][j][thread], v);
      if constexpr (kLevel == 1 || kLevel == 2) {
        shared.pending[kLevel - 1][j][thread] = v;
      } else {  // of 1 segment, or of all
        STRATA_UNROLL(4)
        for (int i = 0; i < 4; ++i) s.pending[j][i] = v.v[i];
      }
      STRATA_UNROLL(4)
      for (int i = 0; i < 4; ++i) s.acc[j][i] = 0.0f;
    }
  }
  template <int kUsed>
  STRATA_DEVICE static void join(Sums& s, int done, int thread, Shared& shared) {
    if (done % 2 == 1) return join<kUsed, 0>(s, thread, shared);
    if (done % 4 == 2) return join<kUsed, 1>(s, thread, shared);
    if (done == 4) return join<kUsed, 2>(s, thread, shared);
    join<kUsed, 3>(s, thread, shared);
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

  // What a lane multiplies of a block of K.
  template <int kUsed>
  struct Operands {
    Fragments<kUsed, 2> f;
    RowScales rows[kUsed];
    Float4 x_scale;
    Float4 x_sum;
  };

  // One block of K: kUsed groups a warp, one or two pairs of columns.
  template <int kUsed>
  STRATA_DEVICE static void add_block(const Block<kThreads>& block, const Stage& stage, int i,
                                      int pairs, PerThread<Sums, kThreads>& sums) {
    PerThread<Operands<kUsed>, kThreads> operands;
    block.lanes([&](int thread) {
      const Warp warp(thread, kUsed < kRows);
      Operands<kUsed>& o = operands[thread];
      STRATA_UNROLL(4)
      for (int r = 0; r < kUsed; ++r) {
        o.f.w[r] = stage.codes[i][warp.group + r][thread % 32];
        STRATA_UNROLL(2)
        for (int part = 0; part < kParts; ++part) {
          o.rows[r].scale[part] = stage.scale[i][part][warp.group + r][thread % 32 / 4];
        }
        if constexpr (kHasMin) o.rows[r].min = stage.min[i][warp.group + r][thread % 32 / 4];
      }
    });
    add_pair<kUsed>(block, stage, i, 0, operands, sums);
    if (pairs > 1) add_pair<kUsed>(block, stage, i, 1, operands, sums);
  }

  template <int kUsed>
  STRATA_DEVICE static void add_pair(const Block<kThreads>& block, const Stage& stage, int i,
                                     int pair, PerThread<Operands<kUsed>, kThreads>& operands,
                                     PerThread<Sums, kThreads>& sums) {
    block.lanes([&](int thread) {
      const int token = Warp(thread, kUsed < kRows).token + 16 * pair;
      const int slot = token / 4 + thread % 4;
      Operands<kUsed>& o = operands[thread];
      load_tokens(stage.x[i][token], sizeof stage.x[i][0], thread % 32, o.f.x);
      o.x_scale = stage.x_scale[i][slot];
      if constexpr (kHasMin) o.x_sum = stage.x_sum[i][slot];
    });
    STRATA_UNROLL(2)
    for (int part = 0; part < kParts; ++part) {
      STRATA_UNROLL(4)
      for (int r = 0; r < kUsed; ++r) {
        multiply_biased(block, operands, r, 0, kParts == 1 ? -1 : part);
        multiply_biased(block, operands, r, 1, kParts == 1 ? -1 : part);
        block.lanes([&](int thread) {
          const Operands<kUsed>& o = operands[thread];
          STRATA_UNROLL(2)
          for (int c = 0; c < 2; ++c) {
            accumulate(o.f.d[r][c], o.rows[r], part, o.x_scale.v + 2 * c, o.x_sum.v + 2 * c,
                       sums[thread].acc[r * kColumns + 2 * pair + c]);
          }
        });
      }
    }
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    if (!has_job(a, block.index)) return;
    const int tokens = place(block.index, 0).count;
    if (tokens <= kWindow) {
      walk<kRows / 2>(block, tokens, shared);
    } else {
      walk<kRows>(block, tokens, shared);
    }
  }

  template <int kUsed>
  STRATA_DEVICE void walk(const Block<kThreads>& block, int tokens, Shared& shared) const {
    const int blocks = static_cast<int>(a.cols / 32);
    PerThread<Source, kThreads> source;
    PerThread<Sums, kThreads> sums;
    const int pairs = block.repeats([&](int thread) {
      const int pairs = (tokens - Warp(thread, kUsed < kRows).token + 15) / 16;
      return pairs < kColumns / 2 ? pairs : kColumns / 2;
    });
    int segment = 0;
    int segment_end = blocks / 8;
    const auto end_segments = [&](int done) {
      while (done == segment_end) {
        ++segment;
        segment_end = segment == 8 ? -1 : (segment + 1) * blocks / 8;
        block.lanes([&](int thread) { join<kUsed>(sums[thread], segment, thread, shared); });
      }
    };
    block.each([&](int thread) {
      sums[thread] = Sums{};
      source[thread] = source_of(block.index, thread);
      fetch(source[thread], 0, blocks > 1 ? 1 : 0, thread, shared.stage[0]);
      unpack(source[thread], thread, shared.stage[0]);
      copies_done();
    });
    end_segments(0);
    for (int base = 0; base < blocks; base += kStage) {
      const Stage& stage = shared.stage[base / kStage % 2];
      Stage& next = shared.stage[base / kStage % 2 ^ 1];
      const int ahead = base + kStage;
      block.lanes([&](int thread) {
        if (ahead < blocks)
          fetch(source[thread], ahead, ahead + 1 < blocks ? ahead + 1 : ahead, thread, next);
      });
      const auto add = [&](int i) {
        add_block<kUsed>(block, stage, i, pairs, sums);
        end_segments(base + i + 1);
      };
      add(0);
      if (base + 1 < blocks) add(1);
      block.each([&](int thread) {
        if (ahead < blocks) unpack(source[thread], thread, next);
        copies_done();
      });
    }
    block.lanes([&](int thread) {
      const Warp warp(thread, kUsed < kRows);
      STRATA_UNROLL(4)
      for (int r = 0; r < kUsed; ++r) {
        const DotPlace p = place(block.index, warp.group + r);
        if (!p.exists) continue;
        write(p, warp.token, thread % 32, &sums[thread].pending[r * kColumns]);
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
        float* out = p.target->out + at * p.target->out_width + p.row + lane / 4 * 2 + i / 2;
        *out = p.target->accumulate ? add_rn(*out, sums[j][i]) : sums[j][i];
      }
    }
  }
};

}  // namespace strata::cuda
