// Every instruction set against the generic kernels, bit for bit, on random and adversarial values.
#include "kernels/cpu/kernels.hpp"

#include "strata/base/half.hpp"
#include "strata/quant/dequantize.hpp"
#include "tests/support/random_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace strata::kernels {
namespace {

using gguf::Type;

std::vector<Isa> usable_isas() {
  std::vector<Isa> isas;
  for (const IsaSupport& s : detect_isas()) {
    if (s.usable) isas.push_back(s.isa);
  }
  return isas;
}

::testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], 4) != 0) {
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// Ordinary values, and those that break careless kernels: zeros of both signs, whole zero blocks,
// one huge channel, values whose scale underflows, exact halves for the rounding rule.
std::vector<float> activations(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) {
    switch ((i / 32 + seed) % 7) {
      case 0:
        x[i] = (i % 2 == 0) ? 0.0f : -0.0f;
        break;
      case 1:
        x[i] = i % 32 == 5 ? 6.5e8f : normal(random);
        break;
      case 2:
        x[i] = 1e-38f * normal(random);
        break;
      case 3:
        x[i] = i % 32 == 0 ? 127.0f : static_cast<float>(static_cast<int>(i % 32) - 16) + 0.5f;
        break;
      default:
        x[i] = normal(random);
    }
  }
  return x;
}

struct Weights {
  std::vector<std::byte> packed;
  quant::PackedMatrix matrix;
};

Weights pack(Type type, const std::vector<std::byte>& src, int rows, std::int64_t cols) {
  Weights w;
  w.packed.resize(quant::packed_bytes(type, rows, cols));
  w.matrix = {type, rows, cols, w.packed.data(), quant::packed_group_bytes(type, cols)};
  const std::size_t row_bytes = src.size() / static_cast<std::size_t>(rows);
  for (std::int64_t g = 0; g < w.matrix.groups(); ++g) {
    const int n = static_cast<int>(std::min<std::int64_t>(16, rows - g * 16));
    quant::pack_group(type, std::span(src).subspan(row_bytes * g * 16, row_bytes * n), n, cols,
                      w.packed.data() + w.matrix.group_bytes * g);
  }
  return w;
}

std::vector<std::byte> make_panel(const Kernels& k, bool floats, const std::vector<float>& x,
                                  int tokens) {
  const auto cols = static_cast<std::int64_t>(x.size()) / tokens;
  std::vector<std::byte> panel(floats ? x.size() * 4 : panel_bytes(cols, tokens));
  for (int t = 0; t < tokens; ++t) {
    if (floats) {
      auto* p = reinterpret_cast<float*>(panel.data());
      for (std::int64_t i = 0; i < cols; ++i) p[i * tokens + t] = x[t * cols + i];
    } else {
      k.quantize(x.data() + t * cols, cols, panel.data(), tokens, t);
    }
  }
  return panel;
}

std::vector<float> dot(DotFunction function, const Weights& w, const std::vector<std::byte>& panel,
                       int tokens, bool accumulate) {
  const std::int64_t stride = w.matrix.groups() * 16;
  std::vector<float> out(static_cast<std::size_t>(stride * tokens), 0.25f);
  function({w.packed.data(), w.matrix.group_bytes, static_cast<int>(w.matrix.groups()),
            w.matrix.cols, panel.data(), out.data(), stride, accumulate});
  return out;
}

class DotTest : public ::testing::TestWithParam<Type> {};

TEST_P(DotTest, EveryIsaAndTileGivesTheGenericBits) {
  const Type type = GetParam();
  const auto index = static_cast<std::size_t>(type);
  const Kernels& generic = kernels_for(Isa::kGeneric);
  const std::int64_t unit = std::max(32u, gguf::traits(type).block_elems);
  // 1 to 3 blocks leave most segments empty; 11 and 24 cut K-quant units in mid segment.
  for (const std::int64_t units : {1, 2, 3, 11, 24}) {
    const std::int64_t cols = units * unit;
    const Weights w = pack(type, testing::random_rows(type, 33, cols, 5), 33, cols);
    const std::vector<float> x = activations(cols * 16, static_cast<unsigned>(units));
    for (const bool f32 : {false, true}) {
      const bool float_panel = f32 || quant::is_float(type);
      const auto& table = [&](const Kernels& k) -> auto& {
        return f32 ? k.dot_f32[index] : k.dot[index];
      };
      // Each token alone through the generic kernel is the reference for all tiles.
      std::vector<std::vector<float>> reference;
      for (int t = 0; t < 16; ++t) {
        const std::vector<float> row(x.begin() + t * cols, x.begin() + (t + 1) * cols);
        reference.push_back(
            dot(table(generic)[0], w, make_panel(generic, float_panel, row, 1), 1, true));
      }
      for (const Isa isa : usable_isas()) {
        const Kernels& k = kernels_for(isa);
        for (const int tokens : kTiles) {
          const std::vector<float> rows(x.begin(), x.begin() + tokens * cols);
          const std::vector<float> out =
              dot(table(k)[tile_index(tokens)], w, make_panel(k, float_panel, rows, tokens), tokens,
                  true);
          for (int t = 0; t < tokens; ++t) {
            const std::vector<float> row(out.begin() + t * 48, out.begin() + (t + 1) * 48);
            ASSERT_TRUE(same_bits(reference[t], row))
                << isa_name(isa) << " tile " << tokens << " token " << t << " cols " << cols
                << (f32 ? " f32" : "");
          }
        }
      }
    }
  }
}

// The generic kernel itself against double precision.
TEST_P(DotTest, TheGenericKernelComputesTheDotProduct) {
  const Type type = GetParam();
  const auto index = static_cast<std::size_t>(type);
  const Kernels& k = kernels_for(Isa::kGeneric);
  const std::int64_t cols = 768;
  const std::vector<std::byte> src = testing::random_rows(type, 16, cols, 11, 0.1f);
  const Weights w = pack(type, src, 16, cols);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(cols);
  for (float& v : x) v = normal(random);
  std::vector<float> seen = x;  // what the int8 kernels see
  if (!quant::is_float(type)) {
    for (std::int64_t b = 0; b < cols; b += 32) {
      float amax = 0;
      for (int i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(x[b + i]));
      for (int i = 0; i < 32; ++i)
        seen[b + i] = std::nearbyint(x[b + i] * (1.0f / (amax / 127))) * (amax / 127);
    }
  }
  const std::vector<float> int8 =
      dot(k.dot[index][0], w, make_panel(k, quant::is_float(type), x, 1), 1, false);
  const std::vector<float> f32 = dot(k.dot_f32[index][0], w, make_panel(k, true, x, 1), 1, false);
  std::vector<float> row(cols);
  for (int r = 0; r < 16; ++r) {
    quant::dequantize_row(type, std::span(src).subspan(src.size() / 16 * r, src.size() / 16), cols,
                          row.data());
    double exact = 0, exact_seen = 0, size = 0;
    for (std::int64_t i = 0; i < cols; ++i) {
      exact += static_cast<double>(row[i]) * x[i];
      exact_seen += static_cast<double>(row[i]) * seen[i];
      size += std::fabs(static_cast<double>(row[i]) * x[i]);
    }
    EXPECT_NEAR(f32[r], exact, size * 2e-6) << "row " << r;
    EXPECT_NEAR(int8[r], exact_seen, size * 2e-6) << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DotTest,
                         ::testing::ValuesIn(quant::supported_types().begin(),
                                             quant::supported_types().end()),
                         [](const auto& info) {
                           return std::string(gguf::traits(info.param).name);
                         });

TEST(QuantizeTest, EveryIsaGivesTheGenericBytes) {
  const std::vector<float> x = activations(32 * 64, 1);
  for (const int tokens : kTiles) {
    const std::vector<std::byte> expected =
        make_panel(kernels_for(Isa::kGeneric), false, x, tokens);
    for (const Isa isa : usable_isas()) {
      EXPECT_EQ(expected, make_panel(kernels_for(isa), false, x, tokens)) << isa_name(isa);
    }
  }
}

TEST(QuantizeTest, RoundsHalvesToEvenAndSurvivesExtremes) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127.0f;
  x[1] = 2.5f;
  x[2] = -3.5f;
  std::vector<std::byte> panel(panel_bytes(32, 1));
  kernels_for(Isa::kGeneric).quantize(x.data(), 32, panel.data(), 1, 0);
  EXPECT_EQ(static_cast<std::int8_t>(panel[1]), 2);
  EXPECT_EQ(static_cast<std::int8_t>(panel[2]), -4);
  BlockMeta meta;
  std::memcpy(&meta, panel.data() + 32, sizeof meta);
  EXPECT_EQ(meta.scale, 1.0f);
  EXPECT_EQ(meta.sum, 125);
  EXPECT_EQ(meta.sum_low, 125);

  std::ranges::fill(x, std::numeric_limits<float>::denorm_min());
  kernels_for(Isa::kGeneric).quantize(x.data(), 32, panel.data(), 1, 0);
  std::memcpy(&meta, panel.data() + 32, sizeof meta);
  EXPECT_EQ(meta.scale, 0.0f);
  EXPECT_EQ(meta.sum, 0);

  std::ranges::fill(x, std::numeric_limits<float>::max());
  kernels_for(Isa::kGeneric).quantize(x.data(), 32, panel.data(), 1, 0);
  std::memcpy(&meta, panel.data() + 32, sizeof meta);
  EXPECT_TRUE(std::isfinite(meta.scale));
  EXPECT_EQ(meta.sum, 32 * 127);
}

// Runs one row kernel on all instruction sets.
template <class Run>
void compare_isas(const Run& run) {
  const std::vector<float> expected = run(kernels_for(Isa::kGeneric));
  for (const Isa isa : usable_isas())
    EXPECT_TRUE(same_bits(expected, run(kernels_for(isa)))) << isa_name(isa);
}

TEST(RowsTest, RmsNormMatchesAcrossIsasAndTheFormula) {
  for (const int n : {16, 40, 64, 128, 2048, 2051}) {
    const std::vector<float> x = activations(n, 4), w = activations(n, 9);
    const auto run = [&](const Kernels& k) {
      std::vector<float> y(x.size());
      k.rms_norm(x.data(), w.data(), n, 1e-6f, y.data());
      return y;
    };
    compare_isas(run);
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    const std::vector<float> y = run(kernels_for(Isa::kGeneric));
    for (int i = 0; i < n; ++i) {
      const double expected = x[i] / std::sqrt(squares / n + 1e-6) * w[i];
      EXPECT_NEAR(y[i], expected, 1e-5 * std::fabs(expected) + 1e-30);
    }
  }
}

TEST(RowsTest, RopeMatchesAcrossIsasAndRotates) {
  for (const bool neox : {false, true}) {
    for (const int n_rot : {8, 64, 72, 128}) {
      std::vector<float> x = activations(128, 4), table(n_rot);
      for (int j = 0; j < n_rot / 2; ++j) {
        table[j] = std::cos(0.3f * j);
        table[n_rot / 2 + j] = std::sin(0.3f * j);
      }
      const auto run = [&](const Kernels& k) {
        std::vector<float> y = x;
        k.rope(y.data(), table.data(), n_rot, neox);
        return y;
      };
      compare_isas(run);
      const std::vector<float> y = run(kernels_for(Isa::kGeneric));
      for (int j = 0; j < n_rot / 2; ++j) {
        const int a = neox ? j : 2 * j;
        const int b = neox ? j + n_rot / 2 : 2 * j + 1;
        const double c = table[j], s = table[n_rot / 2 + j],
                     size = std::fabs(x[a]) + std::fabs(x[b]);
        EXPECT_NEAR(y[a], x[a] * c - x[b] * s, 1e-6 * size);
        EXPECT_NEAR(y[b], x[a] * s + x[b] * c, 1e-6 * size);
      }
      for (int i = n_rot; i < 128; ++i) EXPECT_EQ(x[i], y[i]);
    }
  }
}

TEST(RowsTest, SwigluMatchesAcrossIsasAndTheFormula) {
  std::vector<float> gate(16 * 32), up(16 * 32);
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    gate[i] = normal(random) * (i % 5 == 0 ? 60.0f : 3.0f);
    up[i] = normal(random);
  }
  for (const int tokens : {1, 3, 16}) {
    compare_isas([&](const Kernels& k) {
      std::vector<float> panel(panel_bytes(64, tokens) / 4);
      k.swiglu_quantize(gate.data(), up.data(), 32, tokens,
                        reinterpret_cast<std::byte*>(panel.data()), 1);
      return panel;
    });
    const auto run = [&](const Kernels& k) {
      std::vector<float> panel(64 * tokens);
      k.swiglu_f32(gate.data(), up.data(), 32, tokens, panel.data(), 1);
      return panel;
    };
    compare_isas(run);
    const std::vector<float> h = run(kernels_for(Isa::kGeneric));
    for (int t = 0; t < tokens; ++t) {
      for (int i = 0; i < 32; ++i) {
        const double g = gate[32 * t + i];
        const double expected = g / (1 + std::exp(-g)) * up[32 * t + i];
        EXPECT_NEAR(h[(32 + i) * tokens + t], expected, 1e-5 * std::fabs(expected) + 1e-6);
      }
    }
  }
}

TEST(RowsTest, SoftmaxMatchesAcrossIsasAndSumsToOne) {
  for (const int n : {1, 7, 16, 60, 128, 512}) {
    std::vector<float> x = activations(n, 6);
    for (float& v : x) v = std::clamp(v, -50.0f, 50.0f);
    const auto run = [&](const Kernels& k) {
      std::vector<float> p(n);
      k.softmax(x.data(), n, p.data());
      return p;
    };
    compare_isas(run);
    double sum = 0;
    for (const float p : run(kernels_for(Isa::kGeneric))) sum += p;
    EXPECT_NEAR(sum, 1.0, 1e-5);
  }
}

TEST(RowsTest, CombineHalfAndDivideMatchAcrossIsas) {
  const std::vector<float> parts = activations(8 * 256, 2), x = activations(256, 3);
  const std::vector<float> weights{0.3f, 0.2f, 0.1f, 0.1f, 0.1f, 0.1f, 0.05f, 0.05f};
  compare_isas([&](const Kernels& k) {
    std::vector<float> y = x;
    k.combine(parts.data(), weights.data(), 8, 256, y.data());
    return y;
  });
  compare_isas([&](const Kernels& k) {
    std::vector<float> y(256);
    k.divide(x.data(), 3.0f, 256, y.data());
    return y;
  });
  compare_isas([&](const Kernels& k) {
    std::vector<float> y(128);
    k.to_half(x.data(), 256, reinterpret_cast<std::uint16_t*>(y.data()));
    return y;
  });
}

// Codes and scales of a head's row, as one list of numbers.
std::vector<float> to_q8(const Kernels& k, const std::vector<float>& x) {
  std::vector<std::int8_t> codes(x.size());
  std::vector<std::uint16_t> scales((x.size() + 31) / 32);
  k.to_q8(x.data(), static_cast<std::int64_t>(x.size()), codes.data(), scales.data());
  std::vector<float> all(codes.begin(), codes.end());
  for (const std::uint16_t s : scales) all.push_back(half_to_float(s));
  return all;
}

TEST(RowsTest, CellsOfEightBitsMatchAcrossIsasAndAreNear) {
  for (const std::size_t size : {16U, 32U, 80U, 512U}) {
    const std::vector<float> x = activations(static_cast<std::int64_t>(size), 9);
    compare_isas([&](const Kernels& k) { return to_q8(k, x); });
    const std::vector<float> q = to_q8(kernels_for(Isa::kGeneric), x);
    for (std::size_t i = 0; i < size; ++i) {
      const float scale = q[size + i / 32];
      if (scale == 65504.0F) continue;  // cut: the next test
      // Half a code, and what rounding the scale to f16 does to 127 of it.
      EXPECT_NEAR(q[i] * scale, x[i], 0.57F * scale + 4e-6F) << i;
      EXPECT_LE(std::abs(q[i]), 127.0F);
    }
  }
}

TEST(RowsTest, ScalesThatAHalfCannotHoldAreBounded) {
  std::vector<float> x(64, 0.0F);
  x[3] = 1e30F;    // the scale would be infinite
  x[40] = -1e-7F;  // and here below half of the smallest one
  const std::vector<float> expected = to_q8(kernels_for(Isa::kGeneric), x);
  EXPECT_EQ(expected[3], 127.0F);
  EXPECT_EQ(expected[64], 65504.0F);
  EXPECT_EQ(expected[40], 0.0F);
  EXPECT_EQ(expected[65], 0.0F);
  compare_isas([&](const Kernels& k) { return to_q8(k, x); });
  // A scale that is rounded far down, as those next to zero are, leaves codes beyond 127.
  std::fill(x.begin(), x.end(), 127.0F * 8.9e-8F);
  EXPECT_EQ(to_q8(kernels_for(Isa::kGeneric), x)[0], 127.0F);
  compare_isas([&](const Kernels& k) { return to_q8(k, x); });
}

struct AttentionCase {
  int head_dim = 64;
  std::vector<int> visible;
  bool q8 = false;
};

// Runs the queries of a case in one call, or each in a call of its own.
std::vector<float> attention(const Kernels& k, const AttentionCase& c, bool together) {
  const int n = static_cast<int>(c.visible.size());
  const std::vector<float> q = activations(static_cast<std::int64_t>(c.head_dim) * n, 5);
  std::mt19937 random(12);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> key(kAttentionChunk * c.head_dim), value(kAttentionChunk * c.head_dim);
  for (auto& v : key) v = float_to_half(normal(random));
  for (auto& v : value) v = float_to_half(normal(random));
  // Cells of 8 bits: any codes, and scales like those of such values.
  const std::size_t row = static_cast<std::size_t>(c.head_dim + 2 * ((c.head_dim + 31) / 32));
  std::vector<std::byte> key_q8(kAttentionChunk * row), value_q8(kAttentionChunk * row);
  if (c.q8) {
    for (auto* bytes : {&key_q8, &value_q8})
      for (std::byte& b : *bytes) b = static_cast<std::byte>(random());
    const auto scale = [&](std::byte* at) {
      const std::uint16_t half = float_to_half(0.02F * normal(random));
      std::memcpy(at, &half, 2);
    };
    const std::size_t scales = row - static_cast<std::size_t>(c.head_dim);
    for (std::size_t p = 0; p < kAttentionChunk; ++p) {
      for (std::size_t b = 0; b < scales; b += 2) scale(value_q8.data() + p * row + b);
      for (std::size_t b = 0; b < scales; b += 2)
        scale(key_q8.data() + p / 16 * 16 * row + 16 * b + p % 16 * 2);
    }
  }
  std::vector<float> scaled = q;
  for (float& v : scaled) v = std::clamp(v, -4.0f, 4.0f);
  std::vector<float> scores(n * kAttentionChunk), max(n), sum(n), out(n * c.head_dim);
  std::vector<const float*> rows;
  for (int i = 0; i < n; ++i) rows.push_back(scaled.data() + i * c.head_dim);
  const auto call = [&](int first, int count) {
    const int positions =
        *std::max_element(c.visible.begin() + first, c.visible.begin() + first + count);
    const auto attend = c.q8 ? k.attention_chunk_q8 : k.attention_chunk_f16;
    attend({rows.data() + first, c.visible.data() + first, count, positions, c.head_dim,
            c.q8 ? static_cast<const void*>(key_q8.data()) : key.data(),
            c.q8 ? static_cast<const void*>(value_q8.data()) : value.data(), 0.125f, scores.data(),
            max.data() + first, sum.data() + first, out.data() + first * c.head_dim});
  };
  if (together) {
    call(0, n);
  } else {
    for (int i = 0; i < n; ++i) call(i, 1);
  }
  out.insert(out.end(), max.begin(), max.end());
  out.insert(out.end(), sum.begin(), sum.end());
  return out;
}

TEST(AttentionTest, EveryIsaGivesTheGenericBitsAloneAndTogether) {
  const std::vector<AttentionCase> cases{
      {64, {1}},
      {64, {17, 17}},
      {128, {256, 255, 3, 80, 81, 82, 83, 84}},
      {80, {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}},
      {256, {100, 100, 100, 200}},
      {64, {1}, true},
      {128, {256, 255, 3, 80, 81, 82, 83, 84}, true},
      {80, {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, true},
      {16, {100, 100, 100, 200}, true}};
  for (const AttentionCase& c : cases) {
    const std::vector<float> expected = attention(kernels_for(Isa::kGeneric), c, false);
    for (const Isa isa : usable_isas()) {
      EXPECT_TRUE(same_bits(expected, attention(kernels_for(isa), c, false)))
          << isa_name(isa) << " alone";
      EXPECT_TRUE(same_bits(expected, attention(kernels_for(isa), c, true)))
          << isa_name(isa) << " together";
    }
  }
}

TEST(AttentionTest, MergingTwoChunksIsAttentionOverBoth) {
  // exp weights 1 and 3 with outputs 10 and 20, the second chunk's maximum higher by ln 2.
  float max = 1.0f, sum = 1.0f;
  std::vector<float> out(16, 10.0f), chunk(16, 60.0f);
  const float ln2 = 0.69314718f;
  kernels_for(Isa::kGeneric)
      .attention_merge(&max, &sum, out.data(), 1.0f + ln2, 3.0f, chunk.data(), 16);
  EXPECT_FLOAT_EQ(max, 1.0f + ln2);
  EXPECT_NEAR(sum, 3.5f, 1e-6);
  EXPECT_NEAR(out[7], 65.0f, 1e-4);
  compare_isas([&](const Kernels& k) {
    std::vector<float> o(16, 10.0f);
    float m = 1.0f, s = 1.0f;
    k.attention_merge(&m, &s, o.data(), 0.25f, 3.0f, chunk.data(), 16);
    o.push_back(m);
    o.push_back(s);
    return o;
  });
}

}  // namespace
}  // namespace strata::kernels
