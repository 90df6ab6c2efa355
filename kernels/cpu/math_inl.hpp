// Exponential, sigmoid and sums with a fixed order, made only of operations that every instruction
// set rounds alike. Included inside namespace strata::kernels::STRATA_ISA by
// kernels/cpu/table_inl.hpp.

// exp(x) for x <= 88: x = n*ln2 + r, |r| <= ln2/2, a degree-6 polynomial for e^r (Cephes' expf
// coefficients), then 2^n. Below -87 the result is 0; above 88 it stays exp(88). Relative error
// below 2^-22.
STRATA_INLINE F32x16 exp_(F32x16 x) {
  const F32x16 clamped = max(min(x, set1(88.0f)), set1(-87.0f));
  const F32x16 n = round_even(mul(clamped, set1(1.44269504f)));
  F32x16 r = fma(n, set1(-0.693359375f), clamped);
  r = fma(n, set1(2.12194440e-4f), r);
  F32x16 p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = add(fma(p, mul(r, r), r), set1(1.0f));
  return zero_where_less(x, -87.0f, scale_by_power(p, n));
}

// x / (1 + exp(-x))
STRATA_INLINE F32x16 silu(F32x16 x) { return div(x, add(set1(1.0f), exp_(sub(zero(), x)))); }
