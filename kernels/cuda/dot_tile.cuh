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

template <class Format, int kWarpCount, int kWarpRows, int kBlocks>
struct DotTileKernel {
  static_assert(offsetof(BlockMeta, scale) == 0 && offsetof(BlockMeta, scaled_sum) == 8);
  static constexpr const char* kName = "dot_tile";
  static constexpr int kWarps = kWarpCount;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kResident = kBlocks;
  static constexpr int kGroups = kWarpCount * kWarpRows / 2;  // of 16 rows
  static constexpr int kTokens = kTileTokens;
  static constexpr int kRows = kWarpRows;  // groups that a warp multiplies
  static constexpr int kColumns = 4;       // with as many 8 tokens
  static constexpr int kWindow = 8 * kColumns;
  static constexpr int kStage = 2;                        // blocks of K at a time
  static constexpr int kDecoded = kGroups / kWarps;       // groups that a warp decodes
  static constexpr int kCopies = 8 * kTokens / kThreads;  // tokens whose bytes a thread copies
  static constexpr int kAhead = 8;  // blocks of K that weights are brought near before
  static constexpr int kLine = 64;  // bytes
  static constexpr int kParts = 32 / Format::kPartElems;
  static constexpr bool kHasMin = Format::kHasMin;
  static_assert(kWarps * kRows * kWindow == kGroups * kTokens);

  struct Stage {
    Int4 x[kStage][kTokens][3];                 // panels: two of codes, one of BlockMeta
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
    std::uint32_t x[kCopies];  // of a token's piece of 16 bytes, from a.x in such pieces
    typename Format::template Words<2, 1> words[kDecoded];
  };
  static constexpr std::uint32_t kNone = 0xffffffffU;
  // A lane's scales and minima of a group's rows 2g and 2g + 1.
  struct RowScales {
    Float2 scale[kParts];
    Float2 min;
  };
  DotArgs a;
  std::int64_t block_bytes;  // of a group; of K quants on average

  // The part of a block's tile that a warp multiplies. Up to 32 tokens take half the groups a warp.
  struct Warp {
    int group;
    int token;
    STRATA_DEVICE Warp(int thread, bool narrow)
        : group(narrow ? thread / 32 * (kRows / 2) : thread / 64 * kRows),
          token(narrow ? 0 : thread / 32 % 2 * kWindow) {}
  };
  // Of the tokens whose bytes a thread copies; 8 threads a token, 6 of them for two blocks of K.
  STRATA_DEVICE static int copied_token(int thread, int copy) {
    return thread / 32 * (4 * kCopies) + 4 * copy + thread % 32 / 8;
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
    STRATA_UNROLL(4)
    for (int copy = 0; copy < kCopies; ++copy) {
      const int token = copied_token(thread, copy);
      s.x[copy] = kNone;
      if (token >= p.count || thread % 8 >= 3 * kStage) continue;
      const std::int32_t column = p.first + token;
      const std::int32_t row = a.x_rows == nullptr ? column : a.x_rows[column];
      s.x[copy] = static_cast<std::uint32_t>(a.x_row_bytes / 16 * static_cast<std::size_t>(row)) +
                  static_cast<std::uint32_t>(thread % 8);
    }
    return s;
  }

  // Sets the activations of two blocks of K on their way; of one, where the second is the end.
  STRATA_DEVICE void fetch_tokens(const Source& source, int block, int blocks, int thread,
                                  Stage& stage) const {
    const int i = thread % 8 / 3;
    if (block + i >= blocks) return;
    const std::byte* x = a.x + block * static_cast<std::int64_t>(kPanelBlockBytes);
    STRATA_UNROLL(4)
    for (int copy = 0; copy < kCopies; ++copy) {
      if (source.x[copy] == kNone) continue;
      copy_async<16>(&stage.x[i][copied_token(thread, copy)][thread % 8 % 3],
                     x + 16 * static_cast<std::uint64_t>(source.x[copy]));
    }
  }

  // Sets the weights of a block of K on their way; those some blocks later begin theirs to the
  // GPU's cache.
  STRATA_DEVICE void fetch_weights(Source& source, int block, int thread) const {
    const int lane = thread % 32;
    const std::int64_t at = (block + kAhead) * block_bytes + kLine * lane;
    STRATA_UNROLL(2)
    for (int q = 0; q < kDecoded; ++q) {
      source.words[q] =
          Format::template fetch<2, 1>(source.group[q], block, lane / 4 * 2, lane % 4);
      if (kLine * lane < block_bytes && at < static_cast<std::int64_t>(a.group_bytes)) {
        prefetch(source.group[q] + at);
      }
    }
  }

  // Four codes less the format's offset, as signed bytes: no carry crosses a byte.
  STRATA_DEVICE static std::uint32_t centred(std::uint32_t codes) {
    if constexpr (Format::kOffset == 0) return codes;
    return ((codes | 0x80808080U) - Format::kOffset * 0x01010101U) ^ 0x80808080U;
  }

  // Decodes the weights that have come, into block i of a stage.
  STRATA_DEVICE static void unpack(const Source& source, int i, int thread, Stage& stage) {
    const int lane = thread % 32;
    STRATA_UNROLL(2)
    for (int q = 0; q < kDecoded; ++q) {
      const int group = thread / 32 * kDecoded + q;
      const WeightBlock b = strata::cuda::unpack<Format>(source.words[q], lane / 4, lane % 4);
      WeightFragment codes;
      STRATA_UNROLL(4)
      for (int c = 0; c < 4; ++c) codes.a[c] = centred(b.codes.a[c]);
      store(&stage.codes[i][group][lane], bytes_as<Int4>(codes));
      if (lane % 4 != 0) continue;
      STRATA_UNROLL(2)
      for (int part = 0; part < kParts; ++part) {
        stage.scale[i][part][group][lane / 4] = {{b.scales[0].part[part], b.scales[1].part[part]}};
      }
      if constexpr (kHasMin) stage.min[i][group][lane / 4] = {{b.scales[0].min, b.scales[1].min}};
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
    float x_scale[4];  // of tokens 2t, 2t + 1, 2t + 8 and 2t + 9
    float x_sum[4];
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
      Operands<kUsed>& o = operands[thread];
      load_tokens(stage.x[i][token], sizeof stage.x[i][0], thread % 32, o.f.x);
      STRATA_UNROLL(4)
      for (int j = 0; j < 4; ++j) {
        const Int4& meta = stage.x[i][token + j / 2 * 8 + thread % 4 * 2 + j % 2][2];
        o.x_scale[j] = bits_to_float(static_cast<std::uint32_t>(meta.v[0]));
        if (kHasMin) o.x_sum[j] = bits_to_float(static_cast<std::uint32_t>(meta.v[2]));
      }
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
            accumulate(o.f.d[r][c], o.rows[r], part, o.x_scale + 2 * c, o.x_sum + 2 * c,
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
      Source& s = source[thread];
      sums[thread] = Sums{};
      s = source_of(block.index, thread);
      fetch_tokens(s, 0, blocks, thread, shared.stage[0]);
      for (int i = 0; i < kStage && i < blocks; ++i) {
        fetch_weights(s, i, thread);
        unpack(s, i, thread, shared.stage[0]);
      }
      copies_done();
    });
    end_segments(0);
    for (int base = 0; base < blocks; base += kStage) {
      const Stage& stage = shared.stage[base / kStage % 2];
      Stage& next = shared.stage[base / kStage % 2 ^ 1];
      const int ahead = base + kStage;
      const auto add = [&](int i) {
        add_block<kUsed>(block, stage, i, pairs, sums);
        end_segments(base + i + 1);
      };
      block.lanes([&](int thread) {
        if (ahead >= blocks) return;
        fetch_tokens(source[thread], ahead, blocks, thread, next);
        fetch_weights(source[thread], ahead, thread);
      });
      add(0);
      block.lanes([&](int thread) {
        if (ahead < blocks) unpack(source[thread], 0, thread, next);
        if (ahead + 1 < blocks) fetch_weights(source[thread], ahead + 1, thread);
      });
      if (base + 1 < blocks) add(1);
      block.each([&](int thread) {
        if (ahead + 1 < blocks) unpack(source[thread], 1, thread, next);
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
