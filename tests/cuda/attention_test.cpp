// Attention and the KV cache of the CUDA device.
#include "tests/cuda/cuda_test.hpp"

namespace strata::device::test {
namespace {

OwnRows plain_rows(int count, std::int64_t width, unsigned seed) {
  return random_rows(count, width, seed);
}
// As far as a score of them is still finite.
OwnRows hard_halves(int count, std::int64_t width, unsigned seed) {
  OwnRows x = hard_rows(count, width, seed);
  for (float& v : x.data()) v = std::clamp(v, -9e6F, 9e6F);  // beyond the largest scale
  return x;
}

// The cache of one sequence, on both devices, filled by their own kv_append.
class Sequence {
 public:
  Sequence(CpuDevice& cpu, Device& gpu, const AttentionShape& shape, KvType type, int positions,
           int capacity, unsigned seed)
      : bytes_(size_of(static_cast<std::int64_t>(shape.kv_heads) * capacity) *
               kv_row_bytes(type, shape.head_dim)),
        cells_(2 * bytes_, std::byte{0xff}),
        on_gpu_(gpu, cells_) {
    cpu_ = {cells_.data(), bytes_, type, capacity};
    gpu_ = {on_gpu_.data(), bytes_, type, capacity};
    const std::int64_t width = static_cast<std::int64_t>(shape.kv_heads) * shape.head_dim;
    for (int first = 0; first < positions; first += 100) {
      const int count = std::min(100, positions - first);
      // Hard ones where quantising has cases; their huge values would hide the others otherwise.
      const auto rows = type == KvType::kQ8_0 && first >= 500 ? hard_halves : plain_rows;
      OwnRows k = rows(count, width, seed + static_cast<unsigned>(first));
      OwnRows v = rows(count, width, seed + static_cast<unsigned>(first) + 1);
      std::vector<WindowRow> cpu_rows;
      std::vector<WindowRow> gpu_rows;
      for (int i = 0; i < count; ++i) {
        cpu_rows.push_back(cpu_row(first + i));
        gpu_rows.push_back(gpu_row(first + i));
      }
      cpu.begin_window(cpu_rows);
      gpu.begin_window(gpu_rows);
      cpu.kv_append(k.rows(), v.rows(), 0, shape);
      const GpuRows gpu_k(gpu, k);
      const GpuRows gpu_v(gpu, v);
      gpu.kv_append(gpu_k.rows(), gpu_v.rows(), 0, shape);
    }
  }
  [[nodiscard]] WindowRow cpu_row(int position) const { return {0, position, cpu_}; }
  [[nodiscard]] WindowRow gpu_row(int position) const { return {0, position, gpu_}; }
  [[nodiscard]] bool same_cells() const { return cells_ == on_gpu_.read(); }

 private:
  std::size_t bytes_;
  std::vector<std::byte> cells_;
  OnGpu<std::byte> on_gpu_;
  KvCache cpu_, gpu_;
};

struct Query {
  const Sequence* sequence;
  int position;
};

class CudaAttentionTest : public CudaTest {
 protected:
  void expect_same_attention(const AttentionShape& shape, const std::vector<Query>& queries,
                             const std::string& what) {
    const auto count = static_cast<int>(queries.size());
    OwnRows q = random_rows(count, static_cast<std::int64_t>(shape.heads) * shape.head_dim, 3, 2);
    std::vector<WindowRow> cpu_rows;
    std::vector<WindowRow> gpu_rows;
    for (const Query& query : queries) {
      cpu_rows.push_back(query.sequence->cpu_row(query.position));
      gpu_rows.push_back(query.sequence->gpu_row(query.position));
    }
    cpu().begin_window(cpu_rows);
    gpu().begin_window(gpu_rows);
    OwnRows expected(count, q.width());
    cpu().attention(q.rows(), 0, shape, expected.rows());
    const GpuRows gpu_q(gpu(), q);
    const GpuRows found(gpu(), OwnRows(count, q.width()));
    gpu().attention(gpu_q.rows(), 0, shape, found.rows());
    expect_same(expected, found.read(), what);
  }
};

AttentionShape make_shape(int kv_heads, int heads_per_kv, int head_dim) {
  return {kv_heads * heads_per_kv, kv_heads, head_dim,
          1.0f / std::sqrt(static_cast<float>(head_dim))};
}

struct Heads {
  int kv_heads;
  int heads_per_kv;
  int head_dim;
  KvType type;
};

// One row (few rows are split by chunks) at the seams, then a prompt's window across a seam.
TEST_F(CudaAttentionTest, GivesTheCpusBits) {
  constexpr Heads kHeads[] = {
      {2, 1, 64, KvType::kF16},  {1, 2, 128, KvType::kF32}, {2, 8, 80, KvType::kF16},
      {1, 12, 64, KvType::kF16}, {1, 3, 16, KvType::kF32},  {1, 20, 16, KvType::kF32},
      {1, 1, 512, KvType::kF16}, {1, 2, 320, KvType::kF32}, {2, 4, 64, KvType::kQ8_0},
      {1, 2, 80, KvType::kQ8_0}, {1, 3, 16, KvType::kQ8_0}, {1, 1, 512, KvType::kQ8_0}};
  for (const Heads& h : kHeads) {
    const std::string what = std::to_string(h.heads_per_kv) + " of " + std::to_string(h.head_dim);
    const AttentionShape shape = make_shape(h.kv_heads, h.heads_per_kv, h.head_dim);
    const Sequence s(cpu(), gpu(), shape, h.type, 601, 624, 7);
    ASSERT_TRUE(s.same_cells()) << what;
    for (const int position : {0, 15, 16, 255, 256, 511, 600}) {
      expect_same_attention(shape, {{&s, position}}, what + " at " + std::to_string(position));
    }
    std::vector<Query> window;
    for (int p = 250; p < 262; ++p) window.push_back({&s, p});
    expect_same_attention(shape, window, what + ", a window");
    if (HasFatalFailure()) return;
  }
}

// Different lengths, capacities and cell types side by side; enough rows that none is split.
TEST_F(CudaAttentionTest, SequencesDoNotMix) {
  const AttentionShape shape = make_shape(2, 4, 32);
  const Sequence a(cpu(), gpu(), shape, KvType::kF16, 700, 704, 1);
  const Sequence b(cpu(), gpu(), shape, KvType::kF32, 20, 32, 3);
  const Sequence c(cpu(), gpu(), shape, KvType::kQ8_0, 300, 512, 5);
  std::vector<Query> queries;
  for (const int p : {17, 255, 256, 257, 258, 699}) queries.push_back({&a, p});
  for (const int p : {0, 1, 2, 3, 4, 5, 17, 19}) queries.push_back({&b, p});
  queries.push_back({&c, 299});
  expect_same_attention(shape, queries, "three sequences");
  queries.clear();
  for (int p = 200; p < 320; ++p) queries.push_back({&a, p});
  queries.push_back({&c, 299});
  expect_same_attention(shape, queries, "a prompt");
}

// Scores so far apart that all but one weight vanish.
TEST_F(CudaAttentionTest, OneScoreCanOutweighAllOthers) {
  const AttentionShape shape{1, 1, 16, 60.0f};
  const Sequence s(cpu(), gpu(), shape, KvType::kF32, 600, 608, 9);
  expect_same_attention(shape, {{&s, 100}, {&s, 300}, {&s, 599}}, "far apart");
}

}  // namespace
}  // namespace strata::device::test
