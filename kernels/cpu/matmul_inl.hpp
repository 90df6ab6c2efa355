// Dot products of 16 interleaved rows with a tile of tokens: the loop that all weight bytes pass
// through. Included inside namespace strata::kernels::STRATA_ISA by kernels/cpu/table_inl.hpp.
//
// Order of the sums (docs/exactness.md): K is cut into 8 segments; in a segment one accumulator a
// row runs over the blocks in order; the 8 sums are added as a tree of neighbours. Rows lie in
// lanes, so no sum ever crosses lanes, and a token's sum does not depend on its tile.

template <int kTile>
STRATA_INLINE void store_tree(const F32x16 (&sums)[8][kTile], const DotArgs& args, int group) {
  for (int t = 0; t < kTile; ++t) {
    const F32x16 a = add(add(sums[0][t], sums[1][t]), add(sums[2][t], sums[3][t]));
    const F32x16 b = add(add(sums[4][t], sums[5][t]), add(sums[6][t], sums[7][t]));
    F32x16 y = add(a, b);
    float* out = args.out + t * args.out_stride + 16 * group;
    if (args.accumulate) y = add(load(out), y);
    store(out, y);
  }
}

// Adds one decoded block to the accumulators of a tile.
template <class Format, int kTile>
STRATA_INLINE void add_block(const Decoded& d, const std::byte* panel, F32x16 (&acc)[kTile]) {
  constexpr int kParts = 32 / Format::kPartElems;
  constexpr int kChunks = 8 / kParts;
  const auto* codes = reinterpret_cast<const std::int8_t*>(panel);
  const auto* meta = reinterpret_cast<const BlockMeta*>(panel + kTile * 32);
#pragma GCC unroll kUnrollTokens
  for (int t = 0; t < kTile; ++t) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      I32x16 dot = set1_int(0);
      if constexpr (Format::kOffset != 0) {
        const std::int32_t sum = kParts == 1 ? meta[t].sum
                                 : part == 0 ? meta[t].sum_low
                                             : meta[t].sum - meta[t].sum_low;
        dot = set1_int(-Format::kOffset * sum);
      }
#pragma GCC unroll 8
      for (int c = 0; c < kChunks; ++c) {
        const int chunk = part * kChunks + c;
        dot = dot4<Format::kWide>(dot, d.codes[chunk], codes + 32 * t + 4 * chunk);
      }
      acc[t] = fma(to_float(dot), mul(d.scale[part], set1(meta[t].scale)), acc[t]);
    }
    if constexpr (Format::kHasMin) acc[t] = fma(d.min, set1(meta[t].scaled_sum), acc[t]);
  }
}

// Asks for block `block` of group `group` of what comes next. Into the second-level cache: its
// queue is the longer one, and the first level has its hands full (measured on Zen 4: half the time
// of experts of 28 KB out of 20 MB, and nothing gained by asking for the first level).
template <class Format>
STRATA_INLINE void ask_for_next(const DotArgs& args, int group, std::int64_t block) {
  if (args.next == nullptr) return;
  const std::byte* p = args.next + args.group_bytes * static_cast<std::size_t>(group) +
                       static_cast<std::size_t>(block) * Format::kBlockBytes;
#pragma GCC unroll 16
  for (std::size_t i = 0; i < Format::kBlockBytes; i += 64) __builtin_prefetch(p + i, 0, 2);
}

template <class Format, int kTile>
void dot_int8(const DotArgs& args) {
  const std::int64_t blocks = args.cols / 32;
  for (int g = 0; g < args.groups; ++g) {
    const std::byte* group = args.weights + args.group_bytes * static_cast<std::size_t>(g);
    F32x16 sums[8][kTile];
    for (int segment = 0; segment < 8; ++segment) {
      F32x16 acc[kTile];
      for (F32x16& a : acc) a = zero();
      const std::int64_t end = (segment + 1) * blocks / 8;
      for (std::int64_t b = segment * blocks / 8; b < end; ++b) {
        ask_for_next<Format>(args, g, b);
        Decoded d;
        Format::decode(group, b, d);
        add_block<Format, kTile>(
            d, args.panel + static_cast<std::size_t>(b) * kTile * kPanelBlockBytes, acc);
      }
      for (int t = 0; t < kTile; ++t) sums[segment][t] = acc[t];
    }
    store_tree<kTile>(sums, args, g);
  }
}

// Weights of float types: one element of 16 rows at a time.
template <class Format, int kTile>
void dot_float(const DotArgs& args) {
  const auto* x = reinterpret_cast<const float*>(args.panel);
  for (int g = 0; g < args.groups; ++g) {
    const std::byte* group = args.weights + args.group_bytes * static_cast<std::size_t>(g);
    F32x16 sums[8][kTile];
    for (int segment = 0; segment < 8; ++segment) {
      F32x16 acc[kTile];
      for (F32x16& a : acc) a = zero();
      const std::int64_t end = (segment + 1) * args.cols / 8;
      for (std::int64_t k = segment * args.cols / 8; k < end; ++k) {
        const F32x16 w = Format::decode(group, k);
#pragma GCC unroll kUnrollTokens
        for (int t = 0; t < kTile; ++t) acc[t] = fma(w, set1(x[k * kTile + t]), acc[t]);
      }
      for (int t = 0; t < kTile; ++t) sums[segment][t] = acc[t];
    }
    store_tree<kTile>(sums, args, g);
  }
}

// The 32 elements of a block as floats, exactly the values the file's formula gives: out[k] holds
// element k of 16 rows.
template <class Format>
void dequantize_block(const std::byte* group, std::int64_t block, F32x16* out) {
  Decoded d;
  Format::decode(group, block, d);
  const auto element = [&](I32x16 code, int k) {
    F32x16 w =
        mul(to_float(add(code, set1_int(-Format::kOffset))), d.scale[k / Format::kPartElems]);
    if constexpr (Format::kHasMin) w = add(w, d.min);
    out[k] = w;
  };
  for (int c = 0; c < 8; ++c) {
    element(byte_of_lane<0>(d.codes[c]), 4 * c);
    element(byte_of_lane<1>(d.codes[c]), 4 * c + 1);
    element(byte_of_lane<2>(d.codes[c]), 4 * c + 2);
    element(byte_of_lane<3>(d.codes[c]), 4 * c + 3);
  }
}
using DequantizeBlock = void (*)(const std::byte*, std::int64_t, F32x16*);

// Quantised weights, f32 activations.
template <int kTile>
void dot_dequantized(const DotArgs& args, DequantizeBlock dequantize) {
  const std::int64_t blocks = args.cols / 32;
  for (int g = 0; g < args.groups; ++g) {
    const std::byte* group = args.weights + args.group_bytes * static_cast<std::size_t>(g);
    F32x16 sums[8][kTile];
    for (int segment = 0; segment < 8; ++segment) {
      F32x16 acc[kTile];
      for (F32x16& a : acc) a = zero();
      const std::int64_t end = (segment + 1) * blocks / 8;
      for (std::int64_t b = segment * blocks / 8; b < end; ++b) {
        F32x16 w[32];
        dequantize(group, b, w);
        const float* x = reinterpret_cast<const float*>(args.panel) + b * 32 * kTile;
        for (int k = 0; k < 32; ++k) {
          for (int t = 0; t < kTile; ++t) acc[t] = fma(w[k], set1(x[k * kTile + t]), acc[t]);
        }
      }
      for (int t = 0; t < kTile; ++t) sums[segment][t] = acc[t];
    }
    store_tree<kTile>(sums, args, g);
  }
}

template <class Format, int kTile>
void dot_f32(const DotArgs& args) {
  dot_dequantized<kTile>(args, dequantize_block<Format>);
}
