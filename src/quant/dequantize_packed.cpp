#include "strata/base/half.hpp"
#include "strata/quant/packed_matrix.hpp"

#include <cstring>

namespace strata::quant {
namespace {

using gguf::Type;

float half_at(const std::byte* p, int r) noexcept {
  std::uint16_t bits;
  std::memcpy(&bits, p + 2 * r, 2);
  return half_to_float(bits);
}

// Element l (0..31) of row r in four vectors of nibbles.
int nibble(const std::byte* nibbles, int r, int l) noexcept {
  const int b = static_cast<int>(nibbles[64 * (l / 4 % 4) + 4 * r + l % 4]);
  return l < 16 ? b & 15 : b >> 4;
}

int high_bit(const std::byte* vector, int r, int l) noexcept {
  return static_cast<int>(vector[4 * r + l % 4]) >> (l / 4) & 1;
}

void legacy(const std::byte* p, int r, bool has_min, bool has_high, float* out) noexcept {
  const float d = half_at(p, r);
  const float m = has_min ? half_at(p + 32, r) : 0.0f;
  const std::byte* high = p + (has_min ? 64 : 32);
  const std::byte* nibbles = high + (has_high ? 64 : 0);
  const int offset = has_min ? 0 : (has_high ? 16 : 8);
  for (int l = 0; l < kBlock; ++l) {
    const int q = nibble(nibbles, r, l) | (has_high ? high_bit(high, r, l) << 4 : 0);
    out[l] = static_cast<float>(q - offset) * d + m;
  }
}

void q4_k_q5_k(const std::byte* p, int r, bool has_high, float* out) noexcept {
  const float d = half_at(p, r);
  const float dmin = half_at(p + 32, r);
  p += 64;
  for (int sub = 0; sub < 8; ++sub) {
    const int low = static_cast<int>(p[r]);
    const int bits = static_cast<int>(p[kGroupRows + r % 8]) >> (4 * (r / 8)) & 15;
    const float scale = d * static_cast<float>((low & 15) | (bits & 3) << 4);
    const float min = dmin * static_cast<float>((low >> 4) | (bits >> 2) << 4);
    p += 24;
    const std::byte* high = p;
    if (has_high) p += 64;
    for (int l = 0; l < kBlock; ++l) {
      const int q = nibble(p, r, l) | (has_high ? high_bit(high, r, l) << 4 : 0);
      *out++ = scale * static_cast<float>(q) - min;
    }
    p += 256;
  }
}

void q6_k(const std::byte* p, int r, float* out) noexcept {
  const float d = half_at(p, r);
  p += 32;
  for (int sub = 0; sub < 8; ++sub, p += 32 + 128 + 256) {
    const std::byte* pairs = p + 32;
    for (int l = 0; l < kBlock; ++l) {
      std::int8_t s;
      std::memcpy(&s, p + kGroupRows * (l / 16) + r, 1);
      const int chunk = l / 4;
      const int high =
          static_cast<int>(pairs[64 * (chunk / 4) + 4 * r + l % 4]) >> (2 * (chunk % 4)) & 3;
      *out++ = d * static_cast<float>(s) *
               static_cast<float>((nibble(pairs + 128, r, l) | high << 4) - 32);
    }
  }
}

}  // namespace

void dequantize_packed_row(const PackedMatrix& matrix, std::int64_t row, float* out) noexcept {
  const gguf::TypeTraits& t = gguf::traits(matrix.type);
  const std::size_t unit_bytes = static_cast<std::size_t>(t.block_bytes) * kGroupRows;
  const std::byte* p = matrix.group(row / kGroupRows);
  const int r = static_cast<int>(row % kGroupRows);
  for (std::int64_t i = 0; i < matrix.cols;
       i += t.block_elems, p += unit_bytes, out += t.block_elems) {
    switch (matrix.type) {
      case Type::kF32:
        std::memcpy(out, p + 4 * r, 4);
        break;
      case Type::kF16:
        *out = half_at(p, r);
        break;
      case Type::kBF16: {
        std::uint16_t bits;
        std::memcpy(&bits, p + 2 * r, 2);
        *out = bf16_to_float(bits);
        break;
      }
      case Type::kQ4_0:
        legacy(p, r, false, false, out);
        break;
      case Type::kQ4_1:
        legacy(p, r, true, false, out);
        break;
      case Type::kQ5_0:
        legacy(p, r, false, true, out);
        break;
      case Type::kQ5_1:
        legacy(p, r, true, true, out);
        break;
      case Type::kQ8_0:
        for (int l = 0; l < kBlock; ++l) {
          const int code = static_cast<int>(p[32 + 64 * (l / 4) + 4 * r + l % 4]);
          out[l] = static_cast<float>(code - 128) * half_at(p, r);
        }
        break;
      case Type::kQ4_K:
        q4_k_q5_k(p, r, false, out);
        break;
      case Type::kQ5_K:
        q4_k_q5_k(p, r, true, out);
        break;
      case Type::kQ6_K:
        q6_k(p, r, out);
        break;
      default:
        return;  // is_supported() was the caller's duty
    }
  }
}

}  // namespace strata::quant
