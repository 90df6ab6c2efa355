#include "strata/quant/dequantize.hpp"

#include "strata/base/half.hpp"
#include "strata/quant/k_scales.hpp"

#include <bit>
#include <cstring>

namespace strata::quant {
namespace {

template <class T>
T load(const std::byte* p) noexcept {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

float load_half(const std::byte* p) noexcept { return half_to_float(load<std::uint16_t>(p)); }
int lo(std::byte b) noexcept { return static_cast<int>(b) & 15; }
int hi(std::byte b) noexcept { return static_cast<int>(b) >> 4; }

// Q4_0 Q4_1 Q5_0 Q5_1: 32 elements, element j in the low and j+16 in the high nibble of byte j.
void legacy_block(const std::byte* p, bool has_min, bool has_high, float* out) noexcept {
  const float d = load_half(p);
  const float m = has_min ? load_half(p + 2) : 0.0f;
  p += has_min ? 4 : 2;
  const std::uint32_t high = has_high ? load<std::uint32_t>(p) : 0u;
  if (has_high) p += 4;
  const int offset = has_min ? 0 : (has_high ? 16 : 8);
  for (int j = 0; j < 16; ++j) {
    const int q0 = (lo(p[j]) | static_cast<int>((high >> j) & 1u) << 4) - offset;
    const int q1 = (hi(p[j]) | static_cast<int>((high >> (j + 16)) & 1u) << 4) - offset;
    out[j] = static_cast<float>(q0) * d + m;
    out[j + 16] = static_cast<float>(q1) * d + m;
  }
}

void q8_0_block(const std::byte* p, float* out) noexcept {
  const float d = load_half(p);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(load<std::int8_t>(p + 2 + j)) * d;
}

void q4_k_q5_k_block(const std::byte* p, bool has_high, float* out) noexcept {
  const float d = load_half(p);
  const float dmin = load_half(p + 2);
  const std::byte* scales = p + 4;
  const std::byte* high = p + 16;
  const std::byte* codes = p + 16 + (has_high ? 32 : 0);
  for (int sub = 0; sub < 8; ++sub) {
    const KScale s = k_scale(scales, sub);
    const float scale = d * static_cast<float>(s.scale);
    const float min = dmin * static_cast<float>(s.min);
    for (int l = 0; l < 32; ++l) {
      const std::byte b = codes[32 * (sub / 2) + l];
      int q = sub % 2 == 0 ? lo(b) : hi(b);
      if (has_high) q |= (static_cast<int>(high[l]) >> sub & 1) << 4;
      out[32 * sub + l] = scale * static_cast<float>(q) - min;
    }
  }
}

void q6_k_block(const std::byte* p, float* out) noexcept {
  const std::byte* ql = p;
  const std::byte* qh = p + 128;
  const std::byte* scales = p + 192;
  const float d = load_half(p + 208);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(load<std::int8_t>(scales + i / 16));
    out[i] = scale * static_cast<float>(q6_k_code(ql, qh, i) - 32);
  }
}

}  // namespace

void dequantize_row(gguf::Type type, std::span<const std::byte> src, std::int64_t cols,
                    float* out) noexcept {
  using gguf::Type;
  const gguf::TypeTraits& t = gguf::traits(type);
  const std::byte* p = src.data();
  for (std::int64_t i = 0; i < cols; i += t.block_elems, p += t.block_bytes, out += t.block_elems) {
    switch (type) {
      case Type::kF32:
        *out = load<float>(p);
        break;
      case Type::kF16:
        *out = load_half(p);
        break;
      case Type::kBF16:
        *out = bf16_to_float(load<std::uint16_t>(p));
        break;
      case Type::kQ4_0:
        legacy_block(p, false, false, out);
        break;
      case Type::kQ4_1:
        legacy_block(p, true, false, out);
        break;
      case Type::kQ5_0:
        legacy_block(p, false, true, out);
        break;
      case Type::kQ5_1:
        legacy_block(p, true, true, out);
        break;
      case Type::kQ8_0:
        q8_0_block(p, out);
        break;
      case Type::kQ4_K:
        q4_k_q5_k_block(p, false, out);
        break;
      case Type::kQ5_K:
        q4_k_q5_k_block(p, true, out);
        break;
      case Type::kQ6_K:
        q6_k_block(p, out);
        break;
      default:
        return;  // is_supported() was the caller's duty
    }
  }
}

}  // namespace strata::quant
