// CpuDevice::linear and embed: against double precision, and the same bits however the work is cut.
#include "tests/device/device_test.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <string>
#include <vector>

namespace strata::device::test {
namespace {

std::string type_name(const ::testing::TestParamInfo<Type>& info) {
  return std::string(gguf::traits(info.param).name);
}

// Several matrices over the same x, some of them accumulating.
class Outputs {
 public:
  explicit Outputs(std::int64_t cols) : cols_(cols) {}
  void add(Type type, int rows, bool accumulate) {
    matrices_.emplace_back(type, rows, cols_, 31u + static_cast<unsigned>(matrices_.size()));
    accumulate_.push_back(accumulate);
  }
  [[nodiscard]] std::size_t size() const { return matrices_.size(); }
  [[nodiscard]] const Matrix& matrix(std::size_t i) const { return matrices_[i]; }
  [[nodiscard]] bool accumulates(std::size_t i) const { return accumulate_[i]; }
  // What an accumulating output holds before.
  [[nodiscard]] static float before(std::int64_t row) {
    return 0.25f * static_cast<float>(row % 7) - 1.0f;
  }

  // One call; the outputs one after the other.
  [[nodiscard]] std::vector<OwnRows> run(CpuDevice& device, OwnRows x) const {
    std::vector<OwnRows> out;
    std::vector<LinearOutput> outputs;
    for (std::size_t i = 0; i < size(); ++i) {
      OwnRows& o = out.emplace_back(x.count(), matrices_[i].padded_rows());
      if (!accumulate_[i]) continue;
      for (std::size_t j = 0; j < o.data().size(); ++j) {
        o.data()[j] = before(static_cast<std::int64_t>(j) % o.width());
      }
    }
    for (std::size_t i = 0; i < size(); ++i)
      outputs.push_back({&matrices_[i].linear(), out[i].rows(), accumulate_[i]});
    device.linear(x.rows(), outputs);
    return out;
  }

  // Each row of x in a call of its own: what every other way must equal.
  [[nodiscard]] std::vector<OwnRows> run_alone(CpuDevice& device, const OwnRows& x) const {
    std::vector<OwnRows> all;
    for (std::size_t i = 0; i < size(); ++i)
      all.emplace_back(std::vector<float>{}, matrices_[i].padded_rows());
    for (int t = 0; t < x.count(); ++t) {
      std::vector<OwnRows> one = run(device, x.slice(t, 1));
      for (std::size_t i = 0; i < size(); ++i) {
        std::vector<float>& data = all[i].data();
        data.insert(data.end(), one[i].data().begin(), one[i].data().end());
      }
    }
    for (OwnRows& rows : all) rows = OwnRows(std::move(rows.data()), rows.width());
    return all;
  }

 private:
  std::int64_t cols_;
  std::deque<Matrix> matrices_;  // a Matrix stays where it is
  std::vector<bool> accumulate_;
};

void expect_near_the_product(const Outputs& outputs, const std::vector<OwnRows>& y,
                             const OwnRows& x, Activations activations) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Matrix& m = outputs.matrix(i);
    for (int t = 0; t < x.count(); ++t) {
      const std::vector<double> seen = as_seen(x.row(t), m.type(), activations);
      for (int r = 0; r < m.padded_rows(); ++r) {
        const float before = outputs.accumulates(i) ? Outputs::before(r) : 0.0f;
        if (r >= m.rows()) {
          ASSERT_EQ(y[i].row(t)[size_of(r)], before) << "padding";
          continue;
        }
        const Dot d = dot(m.row(r), seen);
        ASSERT_NEAR(y[i].row(t)[size_of(r)], d.value + before, kDotTolerance * (d.size + 1))
            << gguf::traits(m.type()).name << " row " << r << " token " << t;
      }
    }
  }
}

void expect_same_rows(const std::vector<OwnRows>& expected, const std::vector<OwnRows>& actual,
                      int count) {
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (int t = 0; t < count; ++t) {
      ASSERT_TRUE(same_bits(expected[i].row(t), actual[i].row(t)))
          << "output " << i << " token " << t << " of " << count;
    }
  }
}

// Runs the first n rows of x for every n in `counts`.
void expect_alone_is_together(CpuDevice& device, const Outputs& outputs, const OwnRows& x,
                              const std::vector<OwnRows>& alone, std::span<const int> counts) {
  for (const int n : counts) {
    expect_same_rows(alone, outputs.run(device, x.slice(0, n)), n);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

Outputs mixed_outputs() {
  Outputs outputs(256);
  outputs.add(Type::kQ8_0, 48, false);
  outputs.add(Type::kF16, 33, true);
  outputs.add(Type::kQ4_K, 16, false);
  outputs.add(Type::kF32, 8, false);
  outputs.add(Type::kBF16, 100, false);
  outputs.add(Type::kQ6_K, 70, true);
  outputs.add(Type::kQ4_0, 1, false);
  outputs.add(Type::kQ5_1, 129, true);
  return outputs;
}

class LinearTest : public ::testing::TestWithParam<Type> {};

TEST_P(LinearTest, ComputesTheProductOfEveryWidth) {
  const std::int64_t unit = std::max(32u, gguf::traits(GetParam()).block_elems);
  for (const std::int64_t cols : {unit, 3 * unit}) {
    Outputs outputs(cols);
    outputs.add(GetParam(), 35, false);
    const OwnRows x = random_rows(31, cols, 4);  // one tile of every width
    for (const Activations activations : {Activations::kInt8, Activations::kF32}) {
      OwnDevice d(usable_isas().back(), 2, activations);
      expect_near_the_product(outputs, outputs.run(d.device, x), x, activations);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LinearTest,
                         ::testing::ValuesIn(quant::supported_types().begin(),
                                             quant::supported_types().end()),
                         type_name);

TEST(LinearMixedTest, SeveralOutputsOfManyTypesAreRight) {
  const Outputs outputs = mixed_outputs();
  const OwnRows x = random_rows(5, 256, 8);
  for (const Activations activations : {Activations::kInt8, Activations::kF32}) {
    Reference reference(activations);
    expect_near_the_product(outputs, outputs.run_alone(reference.device, x), x, activations);
  }
}

TEST(LinearMixedTest, EveryWindowGivesTheBitsOfATokenAlone) {
  const Outputs outputs = mixed_outputs();
  const OwnRows x = random_rows(150, 256, 9);
  for (const Activations activations : {Activations::kInt8, Activations::kF32}) {
    OwnDevice d(usable_isas().back(), 3, activations);
    const std::vector<OwnRows> alone = outputs.run_alone(d.device, x);
    std::vector<int> counts(70);
    std::iota(counts.begin(), counts.end(), 1);
    // More tiles than a task takes, with and without a tail of every width.
    counts.insert(counts.end(), {127, 128, 129, 150});
    expect_alone_is_together(d.device, outputs, x, alone, counts);
  }
}

TEST(LinearMixedTest, EveryDeviceGivesTheBitsOfTheReference) {
  const Outputs outputs = mixed_outputs();
  const OwnRows x = random_rows(70, 256, 10);
  for (const Activations activations : {Activations::kInt8, Activations::kF32}) {
    Reference reference(activations);
    const std::vector<OwnRows> alone = outputs.run_alone(reference.device, x);
    on_every_device(activations, [&](CpuDevice& device) {
      expect_alone_is_together(device, outputs, x, alone, std::vector<int>{1, 3, 31, 70});
    });
  }
}

TEST(LinearTallTest, TasksOfManyGroupsGiveTheSameBits) {
  Outputs outputs(64);
  outputs.add(Type::kQ4_0, 1043, false);
  outputs.add(Type::kF32, 520, true);
  const OwnRows x = random_rows(20, 64, 11);
  Reference reference;
  const std::vector<OwnRows> alone = outputs.run_alone(reference.device, x);
  expect_near_the_product(outputs, alone, x, Activations::kInt8);
  on_every_device(Activations::kInt8, [&](CpuDevice& device) {
    expect_alone_is_together(device, outputs, x, alone, std::vector<int>{1, 2, 20});
  });
}

TEST(LinearTallTest, FloatWeightsNeedNoWholeBlocks) {
  for (const std::int64_t cols : {16, 48, 80}) {
    Outputs outputs(cols);
    outputs.add(Type::kF16, 20, false);
    outputs.add(Type::kBF16, 16, true);
    outputs.add(Type::kF32, 40, false);
    const OwnRows x = random_rows(17, cols, 12);
    Reference reference;
    const std::vector<OwnRows> alone = outputs.run_alone(reference.device, x);
    expect_near_the_product(outputs, alone, x, Activations::kInt8);
    on_every_device(Activations::kInt8, [&](CpuDevice& device) {
      expect_alone_is_together(device, outputs, x, alone, std::vector<int>{17});
    });
  }
}

TEST(LinearTallTest, ZerosAndHugeRowsStayAmongThemselves) {
  Outputs outputs(64);
  outputs.add(Type::kQ8_0, 32, false);
  OwnRows x = random_rows(18, 64, 13);
  std::fill_n(x.data().begin() + 3 * 64, 64, 0.0f);     // row 3
  std::fill_n(x.data().begin() + 9 * 64, 64, 3e37f);    // row 9
  std::fill_n(x.data().begin() + 17 * 64, 32, 1e-41f);  // half of row 17: below what a scale can be
  Reference reference;
  const std::vector<OwnRows> alone = outputs.run_alone(reference.device, x);
  for (const float y : alone[0].row(3)) EXPECT_EQ(y, 0.0f);
  on_every_device(Activations::kInt8, [&](CpuDevice& device) {
    expect_alone_is_together(device, outputs, x, alone, std::vector<int>{18});
  });
}

class EmbedTest : public ::testing::TestWithParam<Type> {};

TEST_P(EmbedTest, CopiesTheRowsOfTheTable) {
  const Matrix table(GetParam(), 37, 512, 5);
  std::vector<std::int32_t> tokens = {36, 0, 15, 16, 16, 31, 32, 5};
  for (const int repeat : {1, 8}) {  // few: done at once; many: spread over the pool
    std::vector<std::int32_t> window;
    for (int i = 0; i < repeat; ++i) window.insert(window.end(), tokens.begin(), tokens.end());
    OwnDevice d(usable_isas().back(), 3);
    OwnRows out(static_cast<int>(window.size()), 512);
    std::vector<WindowRow> rows;
    for (const std::int32_t token : window) rows.push_back({.token = token, .cache = {}});
    d.device.begin_window(rows);
    d.device.embed(table.linear(), out.rows());
    for (std::size_t t = 0; t < window.size(); ++t) {
      ASSERT_TRUE(same_bits(table.row(window[t]), out.row(static_cast<int>(t)))) << "token " << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EmbedTest,
                         ::testing::ValuesIn(quant::supported_types().begin(),
                                             quant::supported_types().end()),
                         type_name);

}  // namespace
}  // namespace strata::device::test
