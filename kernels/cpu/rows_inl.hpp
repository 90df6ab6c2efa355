// Kernels that work on one row of activations: quantising, norms, RoPE, SwiGLU, softmax, combine.
// Included inside namespace strata::kernels::STRATA_ISA by kernels/cpu/table_inl.hpp.

// Below this a block's scale has no usable reciprocal: the block becomes zeros.
constexpr float kMinScale = 1.17549435e-38f;

// Quantises 32 floats: scale = amax / 127, codes = round-half-even(x / scale as x * (1/scale)).
STRATA_INLINE void quantize_block(F32x16 lo, F32x16 hi, std::int8_t* codes, BlockMeta* meta) {
  const float amax = max_lanes(max(abs(lo), abs(hi)));
  const float scale = amax / 127.0f;
  const bool usable = scale >= kMinScale;
  const F32x16 inverse = set1(usable ? 1.0f / scale : 0.0f);
  const I32x16 a = to_int(round_even(mul(lo, inverse)));
  const I32x16 b = to_int(round_even(mul(hi, inverse)));
  store_as_i8(codes, a);
  store_as_i8(codes + 16, b);
  const std::int32_t low = sum_lanes(a);
  const std::int32_t sum = low + sum_lanes(b);
  const float kept = usable ? scale : 0.0f;
  *meta = BlockMeta{kept, sum, static_cast<float>(sum) * kept, low};
}

STRATA_INLINE std::int8_t* panel_codes(std::byte* panel, std::int64_t block, int tokens,
                                       int token) {
  return reinterpret_cast<std::int8_t*>(
      panel + static_cast<std::size_t>(block * tokens) * kPanelBlockBytes + token * 32);
}
STRATA_INLINE BlockMeta* panel_meta(std::byte* panel, std::int64_t block, int tokens, int token) {
  return reinterpret_cast<BlockMeta*>(
             panel + static_cast<std::size_t>(block * tokens) * kPanelBlockBytes + tokens * 32) +
         token;
}

void quantize(const float* x, std::int64_t n, std::byte* panel, int tokens, int token) {
  for (std::int64_t b = 0; b < n / 32; ++b) {
    quantize_block(load(x + 32 * b), load(x + 32 * b + 16), panel_codes(panel, b, tokens, token),
                   panel_meta(panel, b, tokens, token));
  }
}

// Lane i sums elements i, i+16, ... in order; lanes past the end add nothing.
void rms_norm(const float* x, const float* weight, std::int64_t n, float eps, float* y) {
  F32x16 acc = zero();
  const std::int64_t whole = n / 16 * 16;
  for (std::int64_t i = 0; i < whole; i += 16) acc = fma(load(x + i), load(x + i), acc);
  if (whole < n) {
    float tail[16] = {};
    for (std::int64_t i = whole; i < n; ++i) tail[i - whole] = x[i];
    acc = fma(load(tail), load(tail), acc);
  }
  const float mean = sum_lanes(acc) / static_cast<float>(n);
  const float inverse = 1.0f / __builtin_sqrtf(mean + eps);
  const F32x16 scale = set1(inverse);
  for (std::int64_t i = 0; i < whole; i += 16)
    store(y + i, mul(mul(load(x + i), scale), load(weight + i)));
  for (std::int64_t i = whole; i < n; ++i) {
    const float scaled = x[i] * inverse;
    y[i] = scaled * weight[i];
  }
}

STRATA_INLINE void rotate(float* a, float* b, float c, float s) {
  const float x = *a;
  const float y = *b;
  const float ys = y * s;
  const float xs = x * s;
  *a = __builtin_fmaf(x, c, -ys);
  *b = __builtin_fmaf(y, c, xs);
}

void rope(float* head, const float* cos_sin, int n_rot, bool neox) {
  const int half = n_rot / 2;
  const float* cosine = cos_sin;
  const float* sine = cos_sin + half;
  int j = 0;
  if (neox) {
    for (; j + 16 <= half; j += 16) {
      const F32x16 x = load(head + j);
      const F32x16 y = load(head + half + j);
      const F32x16 c = load(cosine + j);
      const F32x16 s = load(sine + j);
      store(head + j, fma(x, c, sub(zero(), mul(y, s))));
      store(head + half + j, fma(y, c, mul(x, s)));
    }
    for (; j < half; ++j) rotate(head + j, head + half + j, cosine[j], sine[j]);
  } else {
    for (; j < half; ++j) rotate(head + 2 * j, head + 2 * j + 1, cosine[j], sine[j]);
  }
}

void swiglu_quantize(const float* gate, const float* up, std::int64_t stride, int tokens,
                     std::byte* panel, std::int64_t block) {
  for (int t = 0; t < tokens; ++t, gate += stride, up += stride) {
    const F32x16 lo = mul(silu(load(gate)), load(up));
    const F32x16 hi = mul(silu(load(gate + 16)), load(up + 16));
    quantize_block(lo, hi, panel_codes(panel, block, tokens, t),
                   panel_meta(panel, block, tokens, t));
  }
}

void swiglu_f32(const float* gate, const float* up, std::int64_t stride, int tokens, float* panel,
                std::int64_t block) {
  for (int t = 0; t < tokens; ++t, gate += stride, up += stride) {
    float h[32];
    store(h, mul(silu(load(gate)), load(up)));
    store(h + 16, mul(silu(load(gate + 16)), load(up + 16)));
    for (int i = 0; i < 32; ++i) panel[(32 * block + i) * tokens + t] = h[i];
  }
}

// Lanes past the end hold -infinity: they win no maximum and add exp(-inf) = 0.
void softmax(const float* x, int n, float* probabilities) {
  const auto chunk = [&](int i) {
    if (i + 16 <= n) return load(x + i);
    float tail[16] = {};
    for (int j = i; j < n; ++j) tail[j - i] = x[j];
    return mask_from(load(tail), n - i);
  };
  F32x16 m = set1(-__builtin_inff());
  for (int i = 0; i < n; i += 16) m = max(chunk(i), m);
  const F32x16 top = set1(max_lanes(m));
  F32x16 sum = zero();
  for (int i = 0; i < n; i += 16) sum = add(sum, exp_(sub(chunk(i), top)));
  const F32x16 total = set1(sum_lanes(sum));
  for (int i = 0; i < n; i += 16) {
    float p[16];
    store(p, div(exp_(sub(chunk(i), top)), total));
    for (int j = i; j < n && j < i + 16; ++j) probabilities[j] = p[j - i];
  }
}

void combine(const float* parts, const float* weights, int ranks, std::int64_t n, float* x) {
  for (std::int64_t i = 0; i < n; i += 16) {
    F32x16 acc = zero();
    for (int r = 0; r < ranks; ++r) acc = fma(set1(weights[r]), load(parts + r * n + i), acc);
    store(x + i, add(load(x + i), acc));
  }
}

void to_half(const float* x, std::int64_t n, std::uint16_t* y) {
  for (std::int64_t i = 0; i < n; i += 16) store_half(y + i, load(x + i));
}

// The scale is rounded to f16 first, and the codes are made for the rounded one: amax / 127, but no
// more than f16 holds. Codes beyond 127, which a scale rounded down gives, become 127.
void to_q8(const float* x, std::int64_t n, std::int8_t* codes, std::uint16_t* scales) {
  constexpr float kLargestHalf = 65504.0f;
  for (std::int64_t first = 0; first < n; first += 32, ++scales) {
    const std::int64_t end = first + 32 < n ? first + 32 : n;
    F32x16 top = zero();
    for (std::int64_t i = first; i < end; i += 16) top = max(abs(load(x + i)), top);
    const float exact = max_lanes(top) / 127.0f;
    *scales = float_to_half(exact < kLargestHalf ? exact : kLargestHalf);
    const float scale = half_to_float(*scales);
    const F32x16 inverse = set1(scale > 0.0f ? 1.0f / scale : 0.0f);
    for (std::int64_t i = first; i < end; i += 16) {
      const F32x16 code = round_even(mul(load(x + i), inverse));
      store_as_i8(codes + i, to_int(max(min(code, set1(127.0f)), set1(-127.0f))));
    }
  }
}

void divide(const float* x, float divisor, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; i += 16) store(y + i, div(load(x + i), set1(divisor)));
}
