// Operations of the CUDA device on rows, its router, and its memory.
#include "tests/cuda/cuda_test.hpp"

#include "strata/base/error.hpp"

namespace strata::device::test {
namespace {

class CudaRowsTest : public CudaTest {};

TEST_F(CudaRowsTest, RmsNormInPlaceAndNot) {
  for (const std::int64_t width : {16, 128, 272, 1000, 4096, 4100, 9000}) {
    for (const int count : {1, 7}) {
      OwnRows x = random_rows(count, width, 1, 3.0f);
      OwnRows weight = random_rows(1, width, 2);
      OwnRows expected(count, width);
      cpu().rms_norm(x.rows(), weight.data().data(), 1e-6f, expected.rows());
      const GpuRows gpu_x(gpu(), x);
      const GpuRows gpu_weight(gpu(), weight);
      const GpuRows y(gpu(), OwnRows(count, width));
      gpu().rms_norm(gpu_x.rows(), gpu_weight.rows().data, 1e-6f, y.rows());
      expect_same(expected, y.read(), std::to_string(width));
      gpu().rms_norm(gpu_x.rows(), gpu_weight.rows().data, 1e-6f, gpu_x.rows());
      expect_same(expected, gpu_x.read(), std::to_string(width) + " in place");
    }
  }
}

TEST_F(CudaRowsTest, Rope) {
  struct Case {
    int head_dim;
    int n_rot;
    bool neox;
  };
  constexpr Case kCases[] = {
      {128, 128, true}, {64, 64, false}, {80, 40, true}, {80, 22, false}, {16, 2, true}};
  constexpr int kPositions = 200;
  constexpr int kRows = 21;
  for (const auto& [head_dim, n_rot, neox] : kCases) {
    OwnRows table = random_rows(kPositions, n_rot, 5);
    OwnRows x = hard_rows(kRows, 3 * head_dim, 6);
    std::vector<WindowRow> window;
    for (int t = 0; t < kRows; ++t) window.push_back({0, t * 37 % kPositions, {}});
    cpu().begin_window(window);
    gpu().begin_window(window);
    const GpuRows gpu_table(gpu(), table);
    const GpuRows gpu_x(gpu(), x);
    cpu().rope(x.rows(), head_dim, {table.data().data(), n_rot, neox});
    gpu().rope(gpu_x.rows(), head_dim, {gpu_table.rows().data, n_rot, neox});
    expect_same(x, gpu_x.read(), std::to_string(n_rot) + " of " + std::to_string(head_dim));
  }
}

TEST_F(CudaRowsTest, Combine) {
  for (const int ranks : {1, 2, 8}) {
    OwnRows x = random_rows(9, 80, 7);
    OwnRows parts = random_rows(9 * ranks, 80, 8);
    OwnRows weights = random_rows(9, ranks, 9);
    const GpuRows gpu_x(gpu(), x);
    const GpuRows gpu_parts(gpu(), parts);
    const GpuRows gpu_weights(gpu(), weights);
    cpu().combine(parts.rows(), weights.data().data(), ranks, x.rows());
    gpu().combine(gpu_parts.rows(), gpu_weights.rows().data, ranks, gpu_x.rows());
    expect_same(x, gpu_x.read(), std::to_string(ranks) + " ranks");
  }
}

TEST_F(CudaRowsTest, KeepRows) {
  OwnRows x = random_rows(9, 100, 10);
  const GpuRows gpu_x(gpu(), x);
  const std::vector<std::int32_t> kept = {0, 2, 3, 7, 8};
  cpu().keep_rows(x.rows(), kept);
  gpu().keep_rows(gpu_x.rows(), kept);
  expect_same(x, gpu_x.read(), "kept");
}

// On a coarse grid ties are frequent; rows have NaN after the experts.
TEST_F(CudaRowsTest, Route) {
  for (const int experts : {6, 16, 60, 128, 512, 2048}) {
    for (const float grid : {1.0f, 1e-6f}) {
      constexpr int kRows = 9;
      const std::int64_t width = (experts + 15) / 16 * 16;
      OwnRows logits(kRows, width);
      const OwnRows drawn = random_rows(kRows, experts, 11, 2.0f);
      for (int r = 0; r < kRows; ++r) {
        for (int e = 0; e < experts; ++e) {
          logits.rows().row(r)[e] = std::round(drawn.row(r)[size_of(e)] / grid) * grid;
        }
      }
      for (int e = 0; e < experts; ++e) {
        logits.rows().row(0)[e] = 1.5f;                               // all alike
        logits.rows().row(1)[e] = e == experts / 2 ? 3e38f : -3e38f;  // one above all
      }
      const GpuRows gpu_logits(gpu(), logits);
      for (const int used : {1, 2, 6}) {
        for (const bool renormalize : {false, true}) {
          std::vector<std::int32_t> ids(size_of(kRows * used), -1);
          std::vector<float> weights(ids.size());
          const OnGpu<std::int32_t> gpu_ids(gpu(), ids);
          const OnGpu<float> gpu_weights(gpu(), weights);
          const RouterShape shape{experts, used, renormalize};
          cpu().route(logits.rows(), shape, ids.data(), weights.data());
          gpu().route(gpu_logits.rows(), shape, gpu_ids.data(), gpu_weights.data());
          ASSERT_EQ(ids, gpu_ids.read()) << experts << " experts, " << used << " used";
          ASSERT_TRUE(same_bits(weights, gpu_weights.read())) << experts << " experts";
        }
      }
    }
  }
}

// Whatever the logits are, ids name experts: they index memory.
TEST_F(CudaRowsTest, RouteOfNonsenseNamesExperts) {
  OwnRows logits(3, 64);
  std::ranges::fill(logits.data(), NAN);
  std::fill_n(logits.data().begin() + 64, 64, -INFINITY);
  std::fill_n(logits.data().begin() + 128, 64, 1.0f);
  logits.data()[130] = NAN;
  logits.data()[140] = INFINITY;
  const GpuRows gpu_logits(gpu(), logits);
  const OnGpu<std::int32_t> ids(gpu(), std::vector<std::int32_t>(3 * 8, -1));
  const OnGpu<float> weights(gpu(), std::vector<float>(3 * 8));
  gpu().route(gpu_logits.rows(), {64, 8, true}, ids.data(), weights.data());
  for (const std::int32_t id : ids.read()) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 64);
  }
}

TEST_F(CudaRowsTest, MoreExpertsThanTheRouterHoldsAreRefused) {
  const GpuRows logits(gpu(), OwnRows(1, 4096));
  const OnGpu<std::int32_t> ids(gpu(), std::vector<std::int32_t>(8));
  const OnGpu<float> weights(gpu(), std::vector<float>(8));
  EXPECT_THROW(gpu().route(logits.rows(), {4096, 8, true}, ids.data(), weights.data()), Error);
}

TEST_F(CudaRowsTest, MemoryIsZeroedAndCopiesKeepTheirBytes) {
  const std::unique_ptr<Memory> zeros = gpu().allocate(100000);
  std::vector<std::byte> read(100000, std::byte{1});
  gpu().copy_to_host(read.data(), zeros->data(), read.size());
  EXPECT_EQ(read, std::vector<std::byte>(100000));
  Buffer host(3 << 20);
  for (std::size_t i = 0; i < host.size(); ++i) host.data()[i] = static_cast<std::byte>(i * 7);
  std::vector<std::byte> bytes(host.data(), host.data() + host.size());
  const std::unique_ptr<Memory> uploaded = gpu().upload(std::move(host));
  std::vector<std::byte> back(bytes.size());
  gpu().copy_to_host(back.data(), uploaded->data(), back.size());
  EXPECT_EQ(back, bytes);
  std::ranges::reverse(bytes);
  gpu().make_copier()->copy(uploaded->data(), bytes.data(), bytes.size());
  gpu().copy_to_host(back.data(), uploaded->data(), back.size());
  EXPECT_EQ(back, bytes);
  EXPECT_FALSE(gpu().is_host_memory());
}

TEST_F(CudaRowsTest, ManySmallArraysGoRoundTheStagingRing) {
  constexpr int kRows = 3000;
  const Matrix table(Type::kF32, 16, 16, 5);
  const Linear on_gpu = upload(gpu(), table);
  const GpuRows found(gpu(), OwnRows(kRows, 16));
  for (int round = 0; round < 400; ++round) {
    const std::vector<WindowRow> rows_of_it(kRows, WindowRow{.token = round % 16, .cache = {}});
    gpu().begin_window(rows_of_it);
    gpu().embed(on_gpu, found.rows());
    if (round % 133 != 7) continue;
    const OwnRows rows = found.read();
    for (const int row : {0, kRows / 2, kRows - 1}) {
      ASSERT_TRUE(same_bits(table.row(round % 16), rows.row(row))) << "round " << round;
    }
  }
}

TEST(CudaStatusTest, AGpuThatIsNotThereIsRefusedWithAReason) {
  const CudaStatus status = cuda_status(99);
  EXPECT_FALSE(status.usable);
  EXPECT_FALSE(status.reason.empty());
  CudaDeviceOptions options;
  options.gpu = 99;
  EXPECT_THROW(static_cast<void>(make_cuda_device(options)), Error);
}

}  // namespace
}  // namespace strata::device::test
