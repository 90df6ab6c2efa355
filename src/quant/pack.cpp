// GGUF rows into groups of 16: moves bits, never values. The layout is written down in
// packed_matrix.hpp.
#include "strata/quant/k_scales.hpp"
#include "strata/quant/packed_matrix.hpp"

#include <array>
#include <cassert>
#include <cstring>

namespace strata::quant {
namespace {

using gguf::Type;

// The blocks of one unit, one a row; rows that do not exist point at zeros.
using Blocks = std::array<const std::byte*, kGroupRows>;

std::uint32_t load32(const std::byte* p) noexcept {
  std::uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}

void store32(std::byte* p, std::uint32_t v) noexcept { std::memcpy(p, &v, 4); }

std::byte* copy_halves(const Blocks& rows, std::size_t offset, std::byte* dst) noexcept {
  for (int r = 0; r < kGroupRows; ++r) std::memcpy(dst + 2 * r, rows[r] + offset, 2);
  return dst + 2 * kGroupRows;
}

template <std::size_t kElementBytes>
std::byte* copy_elements(const Blocks& rows, std::byte* dst) noexcept {
  for (int r = 0; r < kGroupRows; ++r) std::memcpy(dst + kElementBytes * r, rows[r], kElementBytes);
  return dst + kElementBytes * kGroupRows;
}

// `nibbles` is the offset of 16 bytes whose byte j holds elements j and j+16.
std::byte* copy_nibbles(const Blocks& rows, std::size_t nibbles, std::byte* dst) noexcept {
  for (int c = 0; c < 4; ++c, dst += 64) {
    for (int r = 0; r < kGroupRows; ++r) std::memcpy(dst + 4 * r, rows[r] + nibbles + 4 * c, 4);
  }
  return dst;
}

// Byte i of the result has in bit c the bit 4c+i of `bits`.
std::uint32_t spread_high_bits(std::uint32_t bits) noexcept {
  std::uint32_t out = 0;
  for (int c = 0; c < 8; ++c) {
    const std::uint32_t four = bits >> (4 * c) & 15u;
    // 0x00204081 puts bit i of `four` at bit 8i (i*7 apart products never collide under the mask).
    out |= ((four * 0x00204081u) & 0x01010101u) << c;
  }
  return out;
}

std::byte* pack_legacy(const Blocks& rows, bool has_min, bool has_high, std::byte* dst) noexcept {
  std::size_t offset = 2;
  dst = copy_halves(rows, 0, dst);
  if (has_min) {
    dst = copy_halves(rows, 2, dst);
    offset += 2;
  }
  if (has_high) {
    for (int r = 0; r < kGroupRows; ++r)
      store32(dst + 4 * r, spread_high_bits(load32(rows[r] + offset)));
    dst += 64;
    offset += 4;
  }
  return copy_nibbles(rows, offset, dst);
}

std::byte* pack_q8_0(const Blocks& rows, std::byte* dst) noexcept {
  dst = copy_halves(rows, 0, dst);
  for (int c = 0; c < 8; ++c, dst += 64) {
    // Adding 128 to each byte is flipping its top bit.
    for (int r = 0; r < kGroupRows; ++r)
      store32(dst + 4 * r, load32(rows[r] + 2 + 4 * c) ^ 0x80808080u);
  }
  return dst;
}

std::byte* pack_k_scales(const Blocks& rows, int sub, std::byte* dst) noexcept {
  std::memset(dst + kGroupRows, 0, 8);
  for (int r = 0; r < kGroupRows; ++r) {
    const KScale s = k_scale(rows[r] + 4, sub);
    dst[r] = static_cast<std::byte>((s.scale & 15) | (s.min & 15) << 4);
    const int high = s.scale >> 4 | s.min >> 4 << 2;
    dst[kGroupRows + r % 8] |= static_cast<std::byte>(high << (4 * (r / 8)));
  }
  return dst + 24;
}

std::byte* pack_k_nibbles(const Blocks& rows, std::size_t codes, int sub, std::byte* dst) noexcept {
  constexpr std::uint32_t kLow = 0x0f0f0f0fu;
  for (int c = 0; c < 4; ++c, dst += 64) {
    for (int r = 0; r < kGroupRows; ++r) {
      const std::byte* q = rows[r] + codes + 32 * (sub / 2) + 4 * c;
      const std::uint32_t a = load32(q);
      const std::uint32_t b = load32(q + 16);
      store32(dst + 4 * r,
              sub % 2 == 0 ? (a & kLow) | (b & kLow) << 4 : (a >> 4 & kLow) | (b & ~kLow));
    }
  }
  return dst;
}

std::byte* pack_q4_k_q5_k(const Blocks& rows, bool has_high, std::byte* dst) noexcept {
  dst = copy_halves(rows, 0, dst);
  dst = copy_halves(rows, 2, dst);
  for (int sub = 0; sub < 8; ++sub) {
    dst = pack_k_scales(rows, sub, dst);
    if (has_high) {
      for (int r = 0; r < kGroupRows; ++r) {
        std::uint32_t bits = 0;
        for (int c = 0; c < 8; ++c)
          bits |= (load32(rows[r] + 16 + 4 * c) >> sub & 0x01010101u) << c;
        store32(dst + 4 * r, bits);
      }
      dst += 64;
    }
    dst = pack_k_nibbles(rows, has_high ? 48 : 16, sub, dst);
  }
  return dst;
}

std::byte* pack_q6_k(const Blocks& rows, std::byte* dst) noexcept {
  dst = copy_halves(rows, 208, dst);
  for (int sub = 0; sub < 8; ++sub) {
    for (int half = 0; half < 2; ++half) {
      for (int r = 0; r < kGroupRows; ++r)
        dst[kGroupRows * half + r] = rows[r][192 + 2 * sub + half];
    }
    dst += 2 * kGroupRows;
    std::byte* const pairs = dst;
    std::byte* const nibbles = dst + 128;
    for (int r = 0; r < kGroupRows; ++r) {
      std::array<int, kBlock> q;
      for (int l = 0; l < kBlock; ++l) q[l] = q6_k_code(rows[r], rows[r] + 128, 32 * sub + l);
      for (int c = 0; c < 4; ++c) {
        for (int i = 0; i < 4; ++i) {
          const int low = q[4 * c + i] & 15;
          const int high = q[16 + 4 * c + i] & 15;
          nibbles[64 * c + 4 * r + i] = static_cast<std::byte>(low | high << 4);
        }
      }
      for (int v = 0; v < 2; ++v) {
        for (int i = 0; i < 4; ++i) {
          int bits = 0;
          for (int j = 0; j < 4; ++j) bits |= q[4 * (4 * v + j) + i] >> 4 << (2 * j);
          pairs[64 * v + 4 * r + i] = static_cast<std::byte>(bits);
        }
      }
    }
    dst += 128 + 256;
  }
  return dst;
}

std::byte* pack_unit(Type type, const Blocks& rows, std::byte* dst) noexcept {
  switch (type) {
    case Type::kF32:
      return copy_elements<4>(rows, dst);
    case Type::kF16:
    case Type::kBF16:
      return copy_elements<2>(rows, dst);
    case Type::kQ4_0:
      return pack_legacy(rows, false, false, dst);
    case Type::kQ4_1:
      return pack_legacy(rows, true, false, dst);
    case Type::kQ5_0:
      return pack_legacy(rows, false, true, dst);
    case Type::kQ5_1:
      return pack_legacy(rows, true, true, dst);
    case Type::kQ8_0:
      return pack_q8_0(rows, dst);
    case Type::kQ4_K:
      return pack_q4_k_q5_k(rows, false, dst);
    case Type::kQ5_K:
      return pack_q4_k_q5_k(rows, true, dst);
    case Type::kQ6_K:
      return pack_q6_k(rows, dst);
    default:
      assert(false && "unsupported type");
      return dst;
  }
}

}  // namespace

void pack_group(Type type, std::span<const std::byte> src, int rows, std::int64_t cols,
                std::byte* dst) noexcept {
  // Missing rows read this block again and again: zero scales, zero codes. 256 covers the largest
  // block, Q6_K's 210.
  static constexpr std::array<std::byte, 256> kZeroBlock{};
  const gguf::TypeTraits& t = gguf::traits(type);
  const std::int64_t units = cols / t.block_elems;
  const std::size_t row_bytes = static_cast<std::size_t>(units) * t.block_bytes;
  assert(src.size() >= row_bytes * static_cast<std::size_t>(rows));
  Blocks blocks;
  for (int r = 0; r < kGroupRows; ++r) {
    blocks[r] = r < rows ? src.data() + row_bytes * static_cast<std::size_t>(r) : kZeroBlock.data();
  }
  for (std::int64_t u = 0; u < units; ++u) {
    dst = pack_unit(type, blocks, dst);
    for (int r = 0; r < rows; ++r) blocks[r] += t.block_bytes;
  }
}

}  // namespace strata::quant
