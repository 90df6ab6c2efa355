// Linear layers, experts and embeddings of the CUDA device.
#include "tests/cuda/cuda_test.hpp"

#include <deque>

namespace strata::device::test {
namespace {

using quant::ExpertLayout;

const auto kTypes =
    ::testing::ValuesIn(quant::supported_types().begin(), quant::supported_types().end());

class CudaLinearTest : public CudaTestOf<Type> {};

// 1 to 3 blocks leave most segments empty; 11 cut K-quant units in mid segment.
TEST_P(CudaLinearTest, GivesTheCpusBits) {
  for (const std::int64_t units : {1, 2, 3, 11}) {
    const std::int64_t cols = units * unit_of(GetParam());
    const Matrix m(GetParam(), 35, cols, 5);
    const Linear on_gpu = upload(gpu(), m);
    for (const int count : {1, 2, 3, 4, 5, 8, 9, 32, 45}) {
      OwnRows x = hard_rows(count, cols, static_cast<unsigned>(units));
      for (const bool accumulate : {false, true}) {
        OwnRows expected = random_rows(count, 48, 3);
        const GpuRows found(gpu(), expected);
        const LinearOutput cpu_output[] = {{&m.linear(), expected.rows(), accumulate}};
        cpu().linear(x.rows(), cpu_output);
        const GpuRows gpu_x(gpu(), x);
        const LinearOutput gpu_output[] = {{&on_gpu, found.rows(), accumulate}};
        gpu().linear(gpu_x.rows(), gpu_output);
        expect_same(expected, found.read(),
                    std::to_string(cols) + " columns, " + std::to_string(count) + " rows");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CudaLinearTest, EmbeddingsAreTheTablesRows) {
  const Matrix table(GetParam(), 37, 512, 5);
  const std::vector<std::int32_t> tokens = {36, 0, 15, 16, 16, 31, 32, 5};
  OwnRows expected(8, 512);
  std::vector<WindowRow> window;
  for (const std::int32_t token : tokens) window.push_back({.token = token, .cache = {}});
  cpu().begin_window(window);
  gpu().begin_window(window);
  cpu().embed(table.linear(), expected.rows());
  const Linear on_gpu = upload(gpu(), table);
  const GpuRows found(gpu(), OwnRows(8, 512));
  gpu().embed(on_gpu, found.rows());
  expect_same(expected, found.read(), "embedding");
}

INSTANTIATE_TEST_SUITE_P(Types, CudaLinearTest, kTypes, type_name);

class CudaMixedTest : public CudaTest {};

// More outputs of a type than a launch takes, of several types, some accumulating.
TEST_F(CudaMixedTest, SeveralOutputsOfManyTypes) {
  struct Output {
    Type type;
    int rows;
    bool accumulate;
  };
  constexpr Output kOutputs[] = {
      {Type::kQ8_0, 48, false}, {Type::kF16, 33, true},    {Type::kQ4_K, 16, false},
      {Type::kQ8_0, 8, true},   {Type::kBF16, 100, false}, {Type::kQ8_0, 70, false},
      {Type::kQ8_0, 1, false},  {Type::kQ8_0, 129, true},  {Type::kQ4_K, 20, false}};
  for (const int count : {1, 6, 40}) {
    OwnRows x = random_rows(count, 256, 8);
    const GpuRows gpu_x(gpu(), x);
    std::deque<Matrix> matrices;
    std::deque<Linear> on_gpu;
    std::deque<OwnRows> expected;
    std::deque<GpuRows> found;
    std::vector<LinearOutput> cpu_outputs;
    std::vector<LinearOutput> gpu_outputs;
    for (const Output& o : kOutputs) {
      const Matrix& m = matrices.emplace_back(o.type, o.rows, 256, 31u + expected.size());
      OwnRows& y = expected.emplace_back(random_rows(count, m.padded_rows(), 4));
      found.emplace_back(gpu(), y);
      cpu_outputs.push_back({&m.linear(), y.rows(), o.accumulate});
      gpu_outputs.push_back(
          {&on_gpu.emplace_back(upload(gpu(), m)), found.back().rows(), o.accumulate});
    }
    cpu().linear(x.rows(), cpu_outputs);
    gpu().linear(gpu_x.rows(), gpu_outputs);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expect_same(expected[i], found[i].read(), "output " + std::to_string(i));
    }
  }
}

// Some experts of a layer, in RAM and on the GPU.
class Experts {
 public:
  Experts(Device& gpu, const ExpertLayout& layout, int count) : gpu_(gpu), layout_(layout) {
    const auto hidden = static_cast<int>(layout.hidden);
    const auto embd = static_cast<int>(layout.embd);
    for (int e = 0; e < count; ++e) {
      const unsigned seed = 100u + 10u * static_cast<unsigned>(e);
      const Matrix gate(layout.gate_type, hidden, embd, seed);
      const Matrix up(layout.up_type, hidden, embd, seed + 1);
      const Matrix down(layout.down_type, embd, hidden, seed + 2);
      std::vector<std::byte>& blob = blobs_.emplace_back();
      for (const Matrix* m : {&gate, &up, &down})
        blob.insert(blob.end(), m->packed().begin(), m->packed().end());
      on_gpu_.emplace_back(gpu, blob);
    }
  }

  // Every expert e has counts[e] of the tokens; parts rows are scattered.
  void expect_same_parts(CpuDevice& cpu, const std::vector<int>& counts, unsigned seed) const {
    constexpr int kTokens = 40;
    OwnRows x = hard_rows(kTokens, layout_.embd, seed);
    std::vector<std::vector<std::int32_t>> tokens(counts.size()), rows(counts.size());
    std::int32_t row = 0;
    for (std::size_t e = 0; e < counts.size(); ++e) {
      for (int i = 0; i < counts[e]; ++i, ++row) {
        tokens[e].push_back((7 * i + static_cast<int>(e)) % kTokens);
        rows[e].push_back(row);
      }
    }
    for (auto& r : rows) {
      for (std::int32_t& i : r) i = row - 1 - i;
    }
    std::vector<ExpertWork> cpu_work;
    std::vector<ExpertWork> gpu_work;
    for (std::size_t e = 0; e < counts.size(); ++e) {
      if (counts[e] == 0) continue;
      cpu_work.push_back({blobs_[e].data(), tokens[e], rows[e]});
      gpu_work.push_back({on_gpu_[e].data(), tokens[e], rows[e]});
    }
    OwnRows expected(row, layout_.embd);
    cpu.experts(x.rows(), layout_, cpu_work, expected.rows());
    const GpuRows gpu_x(gpu_, x);
    const GpuRows found(gpu_, OwnRows(row, layout_.embd));
    gpu_.experts(gpu_x.rows(), layout_, gpu_work, found.rows());
    expect_same(expected, found.read(), "parts");
  }

 private:
  Device& gpu_;
  ExpertLayout layout_;
  std::deque<std::vector<std::byte>> blobs_;
  std::deque<OnGpu<std::byte>> on_gpu_;
};

class CudaExpertsTest : public CudaTestOf<Type> {};

TEST_P(CudaExpertsTest, GiveTheCpusBits) {
  const std::int64_t unit = unit_of(GetParam());
  const Experts experts(gpu(), {GetParam(), GetParam(), GetParam(), unit == 256 ? 512 : 96, unit},
                        5);
  experts.expect_same_parts(cpu(), {1, 0, 0, 0, 0}, 1);
  experts.expect_same_parts(cpu(), {1, 1, 0, 1, 1}, 2);
  experts.expect_same_parts(cpu(), {2, 3, 0, 8, 5}, 3);
  experts.expect_same_parts(cpu(), {17, 1, 33, 9, 40}, 4);
}

INSTANTIATE_TEST_SUITE_P(Types, CudaExpertsTest, kTypes, type_name);

// Gate and up of different types, float ones among them; down of a third.
TEST_F(CudaMixedTest, ExpertsOfMixedTypes) {
  constexpr Type kMixes[][3] = {{Type::kQ4_0, Type::kQ8_0, Type::kQ5_0},
                                {Type::kF16, Type::kQ4_1, Type::kQ8_0},
                                {Type::kQ5_1, Type::kBF16, Type::kF32},
                                {Type::kF32, Type::kF16, Type::kQ4_0}};
  for (const auto& [gate, up, down] : kMixes) {
    const Experts experts(gpu(), {gate, up, down, 64, 96}, 3);
    experts.expect_same_parts(cpu(), {1, 1, 1}, 1);
    experts.expect_same_parts(cpu(), {3, 12, 1}, 2);
  }
}

TEST_F(CudaMixedTest, NoWorkIsDoneAtOnce) {
  const GpuRows x(gpu(), random_rows(1, 64, 1));
  gpu().experts(x.rows(), {Type::kQ8_0, Type::kQ8_0, Type::kQ8_0, 64, 32}, {}, x.rows());
}

}  // namespace
}  // namespace strata::device::test
