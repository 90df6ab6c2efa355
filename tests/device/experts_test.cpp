// CpuDevice::experts: against double precision, and the same bits for every device, window and
// grouping of tokens.
#include "tests/device/device_test.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace strata::device::test {
namespace {

using quant::ExpertLayout;

// Experts of one layer, packed as the store packs them.
class Experts {
 public:
  Experts(const ExpertLayout& layout, int count, unsigned seed) : layout_(layout) {
    const auto hidden = static_cast<int>(layout.hidden);
    const auto embd = static_cast<int>(layout.embd);
    for (int e = 0; e < count; ++e) {
      const unsigned s = seed + 10u * static_cast<unsigned>(e);
      Expert& x = experts_.emplace_back();
      x.gate = std::make_unique<Matrix>(layout.gate_type, hidden, embd, s);
      x.up = std::make_unique<Matrix>(layout.up_type, hidden, embd, s + 1);
      x.down = std::make_unique<Matrix>(layout.down_type, embd, hidden, s + 2);
      for (const Matrix* m : {x.gate.get(), x.up.get(), x.down.get()})
        x.blob.insert(x.blob.end(), m->packed().begin(), m->packed().end());
    }
  }
  [[nodiscard]] int count() const { return static_cast<int>(experts_.size()); }
  [[nodiscard]] const ExpertLayout& layout() const { return layout_; }
  [[nodiscard]] const std::byte* blob(int e) const { return experts_[size_of(e)].blob.data(); }

  // Parts row of (token, rank) is expert ids[token * used + rank] of row `token`; one call.
  [[nodiscard]] OwnRows run(CpuDevice& device, OwnRows x, const std::vector<int>& ids,
                            int used) const {
    std::vector<std::vector<std::int32_t>> tokens(experts_.size()), rows(experts_.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      tokens[size_of(ids[i])].push_back(static_cast<std::int32_t>(i) / used);
      rows[size_of(ids[i])].push_back(static_cast<std::int32_t>(i));
    }
    std::vector<ExpertWork> work;
    for (int e = 0; e < count(); ++e) {
      if (!rows[size_of(e)].empty())
        work.push_back({blob(e), tokens[size_of(e)], rows[size_of(e)]});
    }
    OwnRows parts(static_cast<int>(ids.size()), layout_.embd);
    device.experts(x.rows(), layout_, work, parts.rows());
    return parts;
  }
  [[nodiscard]] OwnRows run_alone(CpuDevice& device, const OwnRows& x, const std::vector<int>& ids,
                                  int used) const {
    std::vector<float> all;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      OwnRows one = run(device, x.slice(static_cast<int>(i) / used, 1), {ids[i]}, 1);
      all.insert(all.end(), one.data().begin(), one.data().end());
    }
    return {std::move(all), layout_.embd};
  }

  // down(silu(gate x) * up x) in double precision, checked against a row of parts.
  void expect_near(std::span<const float> x, int expert, std::span<const float> part,
                   Activations activations) const {
    const Expert& e = experts_[size_of(expert)];
    std::vector<float> hidden(size_of(layout_.hidden));
    for (int i = 0; i < layout_.hidden; ++i) {
      const double g = dot(e.gate->row(i), as_seen(x, layout_.gate_type, activations)).value;
      const double u = dot(e.up->row(i), as_seen(x, layout_.up_type, activations)).value;
      hidden[size_of(i)] = static_cast<float>(g / (1 + std::exp(-g)) * u);
    }
    // A hidden value at the edge between two int8 codes may round either way.
    double step = 0;
    if (activations == Activations::kInt8 && !quant::is_float(layout_.down_type)) {
      for (const float h : hidden) step = std::max(step, std::fabs(static_cast<double>(h)) / 127);
    }
    const std::vector<double> seen = as_seen(hidden, layout_.down_type, activations);
    for (int r = 0; r < layout_.embd; ++r) {
      const std::span<const float> w = e.down->row(r);
      float widest = 0;
      for (const float v : w) widest = std::max(widest, std::fabs(v));
      const Dot d = dot(w, seen);
      ASSERT_NEAR(part[size_of(r)], d.value, 1e-5 * d.size + 1.01 * step * widest)
          << "expert " << expert << " row " << r;
    }
  }

 private:
  struct Expert {
    std::unique_ptr<Matrix> gate, up, down;
    std::vector<std::byte> blob;
  };
  ExpertLayout layout_;
  std::vector<Expert> experts_;
};

// `used` distinct experts of `experts` for each token.
std::vector<int> random_ids(int tokens, int experts, int used, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> ids;
  for (int t = 0; t < tokens; ++t) {
    std::vector<int> all(size_of(experts));
    std::iota(all.begin(), all.end(), 0);
    std::ranges::shuffle(all, random);
    ids.insert(ids.end(), all.begin(), all.begin() + used);
  }
  return ids;
}

void expect_rows(const OwnRows& expected, const OwnRows& actual, int count) {
  for (int i = 0; i < count; ++i)
    ASSERT_TRUE(same_bits(expected.row(i), actual.row(i))) << "part " << i << " of " << count;
}

std::vector<int> first_of(const std::vector<int>& ids, int count) {
  return {ids.begin(), ids.begin() + count};
}

struct Formats {
  std::array<Type, 3> types;  // gate, up, down
  std::int64_t embd;
  std::int64_t hidden;
};

class ExpertsTest : public ::testing::TestWithParam<Formats> {
 protected:
  [[nodiscard]] static ExpertLayout layout() {
    const auto& [types, embd, hidden] = GetParam();
    return {types[0], types[1], types[2], embd, hidden};
  }
};

TEST_P(ExpertsTest, EveryWindowAndDeviceGivesTheBitsOfATokenAlone) {
  const Experts experts(layout(), 5, 17);
  const OwnRows x = random_rows(40, layout().embd, 3);
  const std::vector<int> ids = random_ids(40, 5, 2, 4);
  for (const Activations activations : {Activations::kInt8, Activations::kF32}) {
    Reference reference(activations);
    const OwnRows alone = experts.run_alone(reference.device, x, ids, 2);
    for (int i = 0; i < 6; ++i)
      experts.expect_near(x.row(i / 2), ids[size_of(i)], alone.row(i), activations);
    on_every_device(activations, [&](CpuDevice& device) {
      for (const int tokens : {1, 2, 5, 40}) {
        const OwnRows parts = experts.run(device, x.slice(0, tokens), first_of(ids, 2 * tokens), 2);
        expect_rows(alone, parts, 2 * tokens);
      }
    });
  }
}

constexpr Type kF32 = Type::kF32, kF16 = Type::kF16, kBF16 = Type::kBF16, kQ4_0 = Type::kQ4_0,
               kQ4_1 = Type::kQ4_1, kQ5_0 = Type::kQ5_0, kQ5_1 = Type::kQ5_1, kQ8_0 = Type::kQ8_0,
               kQ4_K = Type::kQ4_K, kQ5_K = Type::kQ5_K, kQ6_K = Type::kQ6_K;

INSTANTIATE_TEST_SUITE_P(Formats, ExpertsTest,
                         ::testing::Values(Formats{{kQ4_0, kQ4_0, kQ4_0}, 64, 96},
                                           Formats{{kQ8_0, kQ4_1, kQ5_0}, 96, 32},
                                           Formats{{kQ4_K, kQ4_K, kQ6_K}, 256, 256},
                                           Formats{{kQ6_K, kQ5_K, kQ4_K}, 256, 256},
                                           Formats{{kF32, kF32, kF32}, 64, 64},
                                           Formats{{kBF16, kF16, kF32}, 64, 32},
                                           Formats{{kQ5_1, kQ5_1, kF16}, 64, 64},
                                           Formats{{kF16, kF16, kQ8_0}, 64, 64},
                                           // Gate and up read x in different forms.
                                           Formats{{kF16, kQ8_0, kQ5_1}, 64, 64},
                                           Formats{{kQ4_K, kF32, kBF16}, 256, 32}),
                         [](const auto& info) {
                           std::string name;
                           for (const Type t : info.param.types)
                             name += (name.empty() ? "" : "_") + std::string(gguf::traits(t).name);
                           return name;
                         });

TEST(ExpertsWindowTest, EveryNumberOfTokensOnOneExpert) {
  const Experts experts({kQ4_0, kQ4_0, kQ8_0, 64, 64}, 3, 5);
  const OwnRows x = random_rows(70, 64, 6);
  const std::vector<int> ids(70, 1);
  Reference reference;
  const OwnRows alone = experts.run_alone(reference.device, x, ids, 1);
  OwnDevice d(usable_isas().back(), 3);
  for (int tokens = 1; tokens <= 70; ++tokens)
    expect_rows(alone, experts.run(d.device, x.slice(0, tokens), first_of(ids, tokens), 1), tokens);
}

TEST(ExpertsWindowTest, EveryExpertForEveryToken) {
  const Experts experts({kQ5_0, kQ5_0, kQ4_0, 64, 32}, 4, 5);
  const OwnRows x = random_rows(19, 64, 7);
  const std::vector<int> ids = random_ids(19, 4, 4, 8);
  Reference reference;
  const OwnRows alone = experts.run_alone(reference.device, x, ids, 4);
  on_every_device(Activations::kInt8, [&](CpuDevice& device) {
    expect_rows(alone, experts.run(device, x, ids, 4), 76);
  });
}

// So many blocks that a task takes several, of which the last task of an expert gets fewer.
TEST(ExpertsWindowTest, WideExpertsAreCutIntoUnequalTasks) {
  const Experts experts({kQ4_0, kQ8_0, kQ5_1, 32, 352}, 6, 9);
  const OwnRows x = random_rows(21, 32, 9);
  const std::vector<int> ids = random_ids(21, 6, 3, 10);
  Reference reference;
  const OwnRows alone = experts.run_alone(reference.device, x, ids, 3);
  for (int i = 0; i < 6; ++i)
    experts.expect_near(x.row(i / 3), ids[size_of(i)], alone.row(i), Activations::kInt8);
  on_every_device(Activations::kInt8, [&](CpuDevice& device) {
    for (const int tokens : {1, 6, 21})
      expect_rows(alone, experts.run(device, x.slice(0, tokens), first_of(ids, 3 * tokens), 3),
                  3 * tokens);
  });
}

// So many small ones that each is a task, and threads take the next one ahead; with more threads
// they are cut by rows.
TEST(ExpertsWindowTest, ManySmallExpertsAreATaskEach) {
  const Experts experts({kQ4_0, kQ4_0, kQ4_0, 64, 64}, 24, 11);
  const OwnRows x = random_rows(9, 64, 12);
  const std::vector<int> ids = random_ids(9, 24, 6, 13);
  Reference reference;
  const OwnRows alone = experts.run_alone(reference.device, x, ids, 6);
  on_every_device(Activations::kInt8, [&](CpuDevice& device) {
    for (const int tokens : {1, 2, 4, 8, 9})
      expect_rows(alone, experts.run(device, x.slice(0, tokens), first_of(ids, 6 * tokens), 6),
                  6 * tokens);
  });
}

TEST(ExpertsWindowTest, NoWorkTouchesNothing) {
  const Experts experts({kQ4_0, kQ4_0, kQ4_0, 32, 32}, 1, 5);
  OwnDevice d(usable_isas().back(), 2);
  OwnRows parts = experts.run(d.device, random_rows(1, 32, 1), {}, 1);
  EXPECT_EQ(parts.count(), 0);
}

// Work for some rows of x and parts only, in an order of the caller's: the rest stays as it was.
TEST(ExpertsWindowTest, WritesTheRowsItIsGivenAndNoOthers) {
  const Experts experts({kQ8_0, kQ8_0, kQ8_0, 64, 32}, 2, 5);
  OwnRows x = random_rows(6, 64, 12);
  const std::vector<std::int32_t> tokens0 = {5, 1}, rows0 = {0, 7};
  const std::vector<std::int32_t> tokens1 = {3}, rows1 = {4};
  const std::vector<ExpertWork> work = {{experts.blob(1), tokens0, rows0},
                                        {experts.blob(0), tokens1, rows1}};
  on_every_device(Activations::kInt8, [&](CpuDevice& device) {
    OwnRows parts(9, 64);
    device.experts(x.rows(), experts.layout(), work, parts.rows());
    const auto expected = [&](int token, int expert) {
      return experts.run(device, x.slice(token, 1), {expert}, 1);
    };
    EXPECT_TRUE(same_bits(expected(5, 1).row(0), parts.row(0)));
    EXPECT_TRUE(same_bits(expected(1, 1).row(0), parts.row(7)));
    EXPECT_TRUE(same_bits(expected(3, 0).row(0), parts.row(4)));
    for (const int row : {1, 2, 3, 5, 6, 8}) {
      for (const float v : parts.row(row)) ASSERT_TRUE(std::isnan(v)) << "row " << row;
    }
  });
}

}  // namespace
}  // namespace strata::device::test
