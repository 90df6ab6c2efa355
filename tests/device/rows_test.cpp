// The CPU device's operations on rows: norms, RoPE, routing, combine; and its memory.
#include "tests/device/device_test.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace strata::device::test {
namespace {

// Few rows are done by the calling thread, many by the pool.
constexpr int kFew = 3;
constexpr int kMany = 90;

TEST(RmsNormTest, EveryDeviceMatchesTheFormulaInPlaceAndNot) {
  const std::int64_t width = 272;
  const OwnRows x = random_rows(kMany, width, 1, 3.0f);
  const OwnRows weight = random_rows(1, width, 2);
  Reference reference;
  OwnRows expected(kMany, width);
  OwnRows input = x;
  reference.device.rms_norm(input.rows(), weight.row(0).data(), 1e-3f, expected.rows());
  for (int t = 0; t < kMany; ++t) {
    double squares = 0;
    for (const float v : x.row(t)) squares += static_cast<double>(v) * v;
    for (std::size_t i = 0; i < size_of(width); ++i) {
      const double y =
          x.row(t)[i] / std::sqrt(squares / static_cast<double>(width) + 1e-3) * weight.row(0)[i];
      ASSERT_NEAR(expected.row(t)[i], y, 1e-6 * std::fabs(y) + 1e-9);
    }
  }
  on_every_device(Activations::kInt8, [&](CpuDevice& device) {
    for (const int count : {1, kFew, kMany}) {
      OwnRows in = x.slice(0, count);
      OwnRows out(count, width);
      device.rms_norm(in.rows(), weight.row(0).data(), 1e-3f, out.rows());
      device.rms_norm(in.rows(), weight.row(0).data(), 1e-3f, in.rows());
      for (int t = 0; t < count; ++t) {
        ASSERT_TRUE(same_bits(expected.row(t), out.row(t)));
        ASSERT_TRUE(same_bits(expected.row(t), in.row(t))) << "in place";
      }
    }
  });
}

struct RopeCase {
  int head_dim;
  int n_rot;
  bool neox;
};

class RopeTest : public ::testing::TestWithParam<RopeCase> {};

TEST_P(RopeTest, TurnsEveryHeadByItsPosition) {
  const auto [head_dim, n_rot, neox] = GetParam();
  constexpr int kHeads = 3;
  constexpr int kPositions = 200;
  std::vector<float> table;
  for (int p = 0; p < kPositions; ++p) {
    for (int j = 0; j < n_rot / 2; ++j)
      table.push_back(std::cos(0.01f * static_cast<float>(p * j)));
    for (int j = 0; j < n_rot / 2; ++j)
      table.push_back(std::sin(0.01f * static_cast<float>(p * j)));
  }
  const OwnRows x = random_rows(kMany, static_cast<std::int64_t>(kHeads) * head_dim, 3);
  std::vector<WindowRow> window;  // no order is asked of them
  for (int t = 0; t < kMany; ++t) window.push_back({0, t * 37 % kPositions, {}});
  const Rope rope{table.data(), n_rot, neox};

  OwnRows expected = x;
  Reference reference;
  reference.device.begin_window(window);
  reference.device.rope(expected.rows(), head_dim, rope);
  for (int t = 0; t < kMany; ++t) {
    const float* cosine = table.data() + window[size_of(t)].position * n_rot;
    const float* sine = cosine + n_rot / 2;
    for (int h = 0; h < kHeads; ++h) {
      const float* before = x.row(t).data() + h * head_dim;
      const float* after = expected.row(t).data() + h * head_dim;
      for (int j = 0; j < n_rot / 2; ++j) {
        const int a = neox ? j : 2 * j;
        const int b = neox ? j + n_rot / 2 : 2 * j + 1;
        const double c = cosine[j], s = sine[j];
        ASSERT_NEAR(after[a], before[a] * c - before[b] * s, 1e-6) << t << ' ' << h << ' ' << j;
        ASSERT_NEAR(after[b], before[a] * s + before[b] * c, 1e-6) << t << ' ' << h << ' ' << j;
      }
      for (int d = n_rot; d < head_dim; ++d) ASSERT_EQ(after[d], before[d]);
    }
  }
  on_every_device(Activations::kInt8, [&, head_dim = head_dim](CpuDevice& device) {
    for (const int count : {1, kFew, kMany}) {
      OwnRows y = x.slice(0, count);
      device.begin_window(window);
      device.rope(y.rows(), head_dim, rope);
      for (int t = 0; t < count; ++t) ASSERT_TRUE(same_bits(expected.row(t), y.row(t)));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, RopeTest,
                         ::testing::Values(RopeCase{128, 128, true}, RopeCase{64, 64, false},
                                           RopeCase{80, 40, true}, RopeCase{80, 22, false},
                                           RopeCase{16, 2, true}),
                         [](const auto& info) {
                           return std::to_string(info.param.n_rot) + "of" +
                                  std::to_string(info.param.head_dim) +
                                  (info.param.neox ? "halves" : "pairs");
                         });

// What route() returns for some logits, whose rows have padding after the experts.
struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};
Routed route(CpuDevice& device, OwnRows logits, const RouterShape& shape) {
  const std::size_t n = size_of(logits.count()) * size_of(shape.used);
  Routed r{std::vector<std::int32_t>(n, -1),
           std::vector<float>(n, std::numeric_limits<float>::quiet_NaN())};
  device.route(logits.rows(), shape, r.ids.data(), r.weights.data());
  return r;
}

// Rows of logits on a coarse grid, so that ties are frequent, padded with NaN to 16.
OwnRows router_logits(int count, int experts, unsigned seed) {
  const std::int64_t width = (experts + 15) / 16 * 16;
  OwnRows rows(count, width);
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> level(-30, 30);
  for (int t = 0; t < count; ++t) {
    for (int e = 0; e < experts; ++e)
      rows.data()[size_of(t * width + e)] = 0.25f * static_cast<float>(level(random));
  }
  return rows;
}

void expect_the_most_probable(const OwnRows& logits, const RouterShape& shape, const Routed& r) {
  for (int t = 0; t < logits.count(); ++t) {
    const std::span<const float> row = logits.row(t).first(size_of(shape.experts));
    std::vector<std::int32_t> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, [&](std::int32_t a, std::int32_t b) { return row[size_of(a)] > row[size_of(b)]; });
    double all = 0, chosen = 0;
    for (const float v : row) all += std::exp(static_cast<double>(v));
    for (int i = 0; i < shape.used; ++i)
      chosen += std::exp(static_cast<double>(row[size_of(order[size_of(i)])]));
    for (int i = 0; i < shape.used; ++i) {
      const std::size_t at = size_of(t * shape.used + i);
      ASSERT_EQ(r.ids[at], order[size_of(i)]) << "token " << t << " rank " << i;
      const double p = std::exp(static_cast<double>(row[size_of(r.ids[at])]));
      ASSERT_NEAR(r.weights[at], p / (shape.renormalize ? chosen : all), 2e-6);
    }
  }
}

TEST(RouteTest, TakesTheMostProbableWithTiesToTheLowerId) {
  for (const bool renormalize : {true, false}) {
    for (const RouterShape& shape :
         {RouterShape{128, 8, renormalize}, RouterShape{60, 4, renormalize},
          RouterShape{6, 6, renormalize}, RouterShape{1, 1, renormalize},
          RouterShape{17, 1, renormalize}, RouterShape{512, 10, renormalize}}) {
      const OwnRows logits = router_logits(kMany, shape.experts, 5);
      Reference reference;
      const Routed expected = route(reference.device, logits, shape);
      expect_the_most_probable(logits, shape, expected);
      on_every_device(Activations::kInt8, [&](CpuDevice& device) {
        for (const int count : {1, kFew, kMany}) {
          const Routed r = route(device, logits.slice(0, count), shape);
          const std::size_t n = r.ids.size();
          ASSERT_TRUE(std::ranges::equal(r.ids, std::span(expected.ids).first(n)));
          ASSERT_TRUE(same_bits(std::span(expected.weights).first(n), r.weights));
        }
      });
    }
  }
}

TEST(RouteTest, EqualLogitsGiveTheFirstExperts) {
  Reference reference;
  OwnRows logits(std::vector<float>(48, 1.5f), 48);
  const Routed r = route(reference.device, logits, {48, 5, true});
  EXPECT_EQ(r.ids, (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
  for (const float w : r.weights) EXPECT_NEAR(w, 0.2f, 1e-6f);
}

TEST(RouteTest, ExtremeLogitsStayFinite) {
  Reference reference;
  OwnRows logits(std::vector<float>(16, -3e38f), 16);
  logits.data()[9] = 3e38f;
  logits.data()[4] = 2e38f;
  const Routed r = route(reference.device, logits, {16, 3, true});
  EXPECT_EQ(r.ids, (std::vector<std::int32_t>{9, 0, 1})) << "4 has no more chance than the others";
  EXPECT_EQ(r.weights, (std::vector<float>{1, 0, 0}));
}

// The sum that weights are divided by is at least 2^-14.
TEST(RouteTest, TinySumsAreClamped) {
  Reference reference;
  constexpr int kExperts = 32768;
  OwnRows logits(std::vector<float>(kExperts, 0.0f), kExperts);
  const Routed r = route(reference.device, logits, {kExperts, 1, true});
  EXPECT_NEAR(r.weights[0], 0.5f, 1e-5f);
}

TEST(CombineTest, AddsTheWeightedPartsInRankOrder) {
  constexpr std::int64_t kWidth = 64;
  for (const int ranks : {1, 2, 8}) {
    const OwnRows x = random_rows(kMany, kWidth, 7);
    OwnRows parts = random_rows(kMany * ranks, kWidth, 8);
    OwnRows weights = random_rows(kMany, ranks, 9);
    Reference reference;
    OwnRows expected = x;
    reference.device.combine(parts.rows(), weights.data().data(), ranks, expected.rows());
    for (int t = 0; t < kMany; ++t) {
      for (std::size_t i = 0; i < size_of(kWidth); ++i) {
        float sum = 0;
        for (int r = 0; r < ranks; ++r)
          sum = std::fma(weights.row(t)[size_of(r)], parts.row(t * ranks + r)[i], sum);
        ASSERT_EQ(expected.row(t)[i], x.row(t)[i] + sum) << "token " << t;
      }
    }
    on_every_device(Activations::kInt8, [&](CpuDevice& device) {
      for (const int count : {1, kFew, kMany}) {
        OwnRows y = x.slice(0, count);
        device.combine(parts.rows(), weights.data().data(), ranks, y.rows());
        for (int t = 0; t < count; ++t) ASSERT_TRUE(same_bits(expected.row(t), y.row(t)));
      }
    });
  }
}

TEST(MemoryTest, IsZeroedAndUploadsKeepTheirBytes) {
  OwnDevice d(Isa::kGeneric, 1);
  const std::unique_ptr<Memory> zeros = d.device.allocate(100000);
  ASSERT_EQ(zeros->size(), 100000u);
  for (std::size_t i = 0; i < zeros->size(); ++i) ASSERT_EQ(zeros->data()[i], std::byte{0});
  Buffer host(1000);
  for (std::size_t i = 0; i < host.size(); ++i) host.data()[i] = static_cast<std::byte>(i * 7);
  const std::unique_ptr<Memory> uploaded = d.device.upload(std::move(host));
  ASSERT_EQ(uploaded->size(), 1000u);
  for (std::size_t i = 0; i < 1000; ++i)
    ASSERT_EQ(uploaded->data()[i], static_cast<std::byte>(i * 7));
}

TEST(DescriptionTest, NamesThreadsKernelsAndActivations) {
  OwnDevice one(Isa::kGeneric, 1);
  EXPECT_EQ(one.device.description(), "CPU, 1 thread, generic kernels, int8 activations");
  OwnDevice three(Isa::kGeneric, 3, Activations::kF32);
  EXPECT_EQ(three.device.description(), "CPU, 3 threads, generic kernels, f32 activations");
}

}  // namespace
}  // namespace strata::device::test
