// The 16-token tile on AMX: tokens are the rows of A (signed bytes), weights the columns of B
// (unsigned codes), and the interleaved layout is already the one B wants: row k/4 of B holds 4
// codes of each of 16 weight rows. Included inside namespace strata::kernels::amx by
// kernels/cpu/isa_amx.cpp.
//
// The int32 products are exact, so handing them to the same floating-point steps as add_block gives
// the same bits.

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// Tiles 0, 1: products; 2, 3: activations (16 tokens x 32 bytes); 4, 5: weights (8 x 16 rows x 4
// codes).
STRATA_INLINE void configure_tiles() {
  TileConfig config;
  for (int i = 0; i < 2; ++i) {
    config.rows[i] = 16;
    config.row_bytes[i] = 64;
    config.rows[2 + i] = 16;
    config.row_bytes[2 + i] = 32;
    config.rows[4 + i] = 8;
    config.row_bytes[4 + i] = 64;
  }
  _tile_loadconfig(&config);
}

// A block on its way through the three stages below. Each stage reads what the one before it stored
// an iteration earlier: neither a tile load nor a load of products has to wait for a store that is
// still in flight.
struct alignas(64) InFlight {
  std::byte codes[8 * 64];
  std::int32_t products[16 * 16];  // [token][row]
  F32x16 scale;
  F32x16 min;
};

template <class Format>
STRATA_INLINE void unpack(const std::byte* group, std::int64_t block, InFlight& f) {
  Decoded d;
  Format::decode(group, block, d);
  for (int c = 0; c < 8; ++c) store_bytes(f.codes + 64 * c, d.codes[c]);
  f.scale = d.scale[0];
  if constexpr (Format::kHasMin) f.min = d.min;
}

// kSlot picks the tiles, so that the products of two blocks overlap.
template <int kSlot>
STRATA_INLINE void multiply(const std::byte* panel, InFlight& f) {
  if constexpr (kSlot == 0) {
    _tile_zero(0);
    _tile_loadd(4, f.codes, 64);
    _tile_loadd(2, panel, 32);
    _tile_dpbsud(0, 2, 4);
    _tile_stored(0, f.products, 64);
  } else {
    _tile_zero(1);
    _tile_loadd(5, f.codes, 64);
    _tile_loadd(3, panel, 32);
    _tile_dpbsud(1, 3, 5);
    _tile_stored(1, f.products, 64);
  }
}

template <class Format>
STRATA_INLINE void accumulate(const InFlight& f, const std::byte* panel, F32x16 (&acc)[16]) {
  const auto* meta = reinterpret_cast<const BlockMeta*>(panel + 16 * 32);
#pragma GCC unroll 16
  for (int t = 0; t < 16; ++t) {
    I32x16 dot = load_int(f.products + 16 * t);
    if constexpr (Format::kOffset != 0) dot = add(dot, set1_int(-Format::kOffset * meta[t].sum));
    acc[t] = fma(to_float(dot), mul(f.scale, set1(meta[t].scale)), acc[t]);
    if constexpr (Format::kHasMin) acc[t] = fma(f.min, set1(meta[t].scaled_sum), acc[t]);
  }
}

template <class Format>
void dot_tiles(const DotArgs& args) {
  const std::int64_t blocks = args.cols / 32;
  const auto panel = [&](std::int64_t b) {
    return args.panel + static_cast<std::size_t>(b) * 16 * kPanelBlockBytes;
  };
  configure_tiles();
  InFlight flight[4];
  for (int g = 0; g < args.groups; ++g) {
    const std::byte* group = args.weights + args.group_bytes * static_cast<std::size_t>(g);
    F32x16 sums[8][16];
    for (std::int64_t b = 0; b < 2 && b < blocks; ++b) unpack<Format>(group, b, flight[b]);
    if (blocks > 0) multiply<0>(panel(0), flight[0]);
    for (int segment = 0; segment < 8; ++segment) {
      F32x16 acc[16];
      for (F32x16& a : acc) a = zero();
      const std::int64_t end = (segment + 1) * blocks / 8;
      for (std::int64_t b = segment * blocks / 8; b < end; ++b) {
        if (b + 2 < blocks) unpack<Format>(group, b + 2, flight[(b + 2) % 4]);
        if (b + 1 < blocks) {
          if (b % 2 == 0) {
            multiply<1>(panel(b + 1), flight[(b + 1) % 4]);
          } else {
            multiply<0>(panel(b + 1), flight[(b + 1) % 4]);
          }
        }
        accumulate<Format>(flight[b % 4], panel(b), acc);
      }
      for (int t = 0; t < 16; ++t) sums[segment][t] = acc[t];
    }
    store_tree<16>(sums, args, g);
  }
  _tile_release();
}
