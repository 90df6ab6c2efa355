// What the CUDA kernels can do that no operation of device::Device asks of them alone.
#include "kernels/cuda/kernels.hpp"

#include "kernels/cpu/panel.hpp"
#include "tests/cuda/cuda_test.hpp"

namespace strata::device::test {
namespace {

class CudaKernelsTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) stream_ = cuda::create_stream();
  }
  void TearDown() override {
    if (stream_ != nullptr) cuda::destroy_stream(stream_);
  }
  cuda::Stream stream_ = nullptr;
};

// The number of jobs is read on the device; outputs of those that are not there stay as they were.
TEST_F(CudaKernelsTest, DotOfAsManyJobsAsTheDeviceSays) {
  constexpr int kMost = 5;
  constexpr std::int64_t kCols = 64;
  const Matrix m(Type::kF32, 32, kCols, 5);
  const OnGpu<std::byte> blob(gpu(), m.packed());
  OwnRows x = random_rows(kMost, kCols, 6);
  const GpuRows gpu_x(gpu(), x);
  OwnRows product(kMost, 32);
  const LinearOutput output[] = {{&m.linear(), product.rows()}};
  cpu().linear(x.rows(), output);
  std::vector<cuda::DotJob> jobs;
  for (int i = 0; i < kMost; ++i) jobs.push_back({blob.data(), i, 1});
  const OnGpu<cuda::DotJob> gpu_jobs(gpu(), std::span<const cuda::DotJob>(jobs));
  const OwnRows before = random_rows(kMost, 32, 7);
  for (const std::int32_t count : {0, 1, 3, kMost}) {
    const OnGpu<std::int32_t> gpu_count(gpu(), std::span(&count, 1));
    const GpuRows found(gpu(), before);
    cuda::DotArgs args{.targets = {{.groups = 2, .out = found.rows().data, .out_width = 32}},
                       .target_count = 1,
                       .group_bytes = quant::packed_group_bytes(Type::kF32, kCols),
                       .cols = kCols,
                       .x = reinterpret_cast<const std::byte*>(gpu_x.rows().data),
                       .x_row_bytes = sizeof(float) * kCols,
                       .job = gpu_jobs.data(),
                       .jobs = kMost,
                       .job_count = gpu_count.data(),
                       .tile = 1};
    cuda::dot(stream_, Type::kF32, args);
    cuda::synchronize(stream_);
    OwnRows expected = before;
    std::copy_n(product.data().begin(), 32 * count, expected.data().begin());
    expect_same(expected, found.read(), std::to_string(count) + " jobs");
  }
}

// RMSNorm with quantising after it, against the two kernels; also in place.
TEST_F(CudaKernelsTest, NormThatQuantisesGivesTheirBits) {
  constexpr int kRows = 3;
  constexpr float kEps = 1e-6f;
  for (const std::int64_t width : {32, 96, 2048, 4096, 9216}) {
    const std::string what = std::to_string(width);
    const GpuRows x(gpu(), hard_rows(kRows, width, 1));
    const GpuRows weight(gpu(), random_rows(1, width, 4));
    const std::vector<std::byte> no_panels(kernels::panel_bytes(width, kRows));
    const GpuRows y(gpu(), OwnRows(kRows, width));
    const OnGpu<std::byte> panels(gpu(), no_panels);
    cuda::rms_norm(stream_, x.rows().data, weight.rows().data, width, kRows, kEps, y.rows().data);
    cuda::quantize(stream_, y.rows().data, kRows * width / 32, panels.data());
    const GpuRows found(gpu(), OwnRows(kRows, width));
    for (float* to : {found.rows().data, x.rows().data}) {
      const OnGpu<std::byte> found_panels(gpu(), no_panels);
      cuda::rms_norm(stream_, {.x = x.rows().data,
                               .width = width,
                               .rows = kRows,
                               .weight = weight.rows().data,
                               .eps = kEps,
                               .y = to,
                               .panels = found_panels.data()});
      cuda::synchronize(stream_);
      EXPECT_EQ(panels.read(), found_panels.read()) << what;
    }
    expect_same(y.read(), found.read(), what);
    expect_same(y.read(), x.read(), what + " in place");
  }
}

// Norms, RoPE and the KV cache in one launch, against one launch each.
TEST_F(CudaKernelsTest, HeadsInOneLaunchGiveTheBitsOfMany) {
  struct Case {
    int head_dim;
    int n_rot;
    bool neox;
    bool norms;
    cuda::Cells cells;
  };
  constexpr Case kCases[] = {{128, 128, true, true, cuda::Cells::kF16},
                             {64, 64, false, false, cuda::Cells::kF32},
                             {80, 22, true, true, cuda::Cells::kQ8},
                             {512, 64, false, true, cuda::Cells::kF16},
                             {48, 0, false, false, cuda::Cells::kQ8}};
  constexpr int kRows = 3;
  constexpr int kHeads = 6;
  constexpr int kKvHeads = 2;
  constexpr std::int32_t kCapacity = 64;
  constexpr float kEps = 1e-6f;
  for (const Case& c : kCases) {
    const std::string what = std::to_string(c.n_rot) + " of " + std::to_string(c.head_dim);
    const OwnRows q = hard_rows(kRows, kHeads * c.head_dim, 1);
    const GpuRows k(gpu(), random_rows(kRows, kKvHeads * c.head_dim, 2));
    const GpuRows v(gpu(), random_rows(kRows, kKvHeads * c.head_dim, 3));
    const GpuRows q_norm(gpu(), random_rows(1, c.head_dim, 4));
    const GpuRows k_norm(gpu(), random_rows(1, c.head_dim, 5));
    const GpuRows table(gpu(), random_rows(kCapacity, std::max(1, c.n_rot), 6));
    const std::vector<std::byte> empty(size_of(4 * kKvHeads * kCapacity * (c.head_dim + 16)),
                                       std::byte{0x55});
    const auto place = [&](const OnGpu<std::byte>& keys, const OnGpu<std::byte>& values) {
      std::vector<cuda::Place> places;
      for (const std::int32_t position : {17, 18, 40}) {
        places.push_back({keys.data(), values.data(), 64, c.cells, kCapacity, position, 0});
      }
      return OnGpu<cuda::Place>(gpu(), std::span<const cuda::Place>(places));
    };
    const GpuRows q1(gpu(), q);
    const GpuRows k1(gpu(), k.read());
    const OnGpu<std::byte> keys1(gpu(), empty);
    const OnGpu<std::byte> values1(gpu(), empty);
    const OnGpu<cuda::Place> places1 = place(keys1, values1);
    if (c.norms) {
      cuda::rms_norm(stream_, q1.rows().data, q_norm.rows().data, c.head_dim, kRows * kHeads, kEps,
                     q1.rows().data);
      cuda::rms_norm(stream_, k1.rows().data, k_norm.rows().data, c.head_dim, kRows * kKvHeads,
                     kEps, k1.rows().data);
    }
    for (const bool query : {true, false}) {
      if (c.n_rot == 0) break;
      cuda::rope(stream_,
                 {query ? q1.rows().data : k1.rows().data, places1.data(), kRows,
                  query ? kHeads : kKvHeads, c.head_dim, table.rows().data, c.n_rot, c.neox});
    }
    cuda::kv_append(stream_, k1.rows().data, v.rows().data, places1.data(), 1, kRows, kKvHeads,
                    c.head_dim);
    const GpuRows q2(gpu(), q);
    const OnGpu<std::byte> keys2(gpu(), empty);
    const OnGpu<std::byte> values2(gpu(), empty);
    const OnGpu<cuda::Place> places2 = place(keys2, values2);
    cuda::heads(stream_, {.q = q2.rows().data,
                          .k = k.rows().data,
                          .v = v.rows().data,
                          .q_norm = c.norms ? q_norm.rows().data : nullptr,
                          .k_norm = c.norms ? k_norm.rows().data : nullptr,
                          .eps = kEps,
                          .places = places2.data(),
                          .layer = 1,
                          .rows = kRows,
                          .heads = kHeads,
                          .kv_heads = kKvHeads,
                          .head_dim = c.head_dim,
                          .table = table.rows().data,
                          .n_rot = c.n_rot,
                          .neox = c.neox});
    cuda::synchronize(stream_);
    expect_same(q1.read(), q2.read(), what);
    EXPECT_EQ(keys1.read(), keys2.read()) << what;
    EXPECT_EQ(values1.read(), values2.read()) << what;
    EXPECT_NE(keys1.read(), empty) << what;
  }
}

// A row's chunks by one block, or by one each, of which there may be more than needed.
TEST_F(CudaKernelsTest, ChunksAreWalkedOrJoined) {
  constexpr int kHeads = 6;
  constexpr int kKvHeads = 2;
  constexpr int kDim = 64;
  constexpr std::int32_t kCapacity = 1024;
  constexpr std::int32_t kPositions[] = {255, 256, 1000};
  constexpr int kRows = 3;
  const OwnRows cells = random_rows(2 * kKvHeads, std::int64_t{kCapacity} * kDim, 1);
  const GpuRows cache(gpu(), cells);
  auto* keys = reinterpret_cast<std::byte*>(cache.rows().data);
  std::byte* values = keys + sizeof(float) * kKvHeads * kCapacity * kDim;
  std::vector<cuda::Place> places;
  for (const std::int32_t p : kPositions) {
    places.push_back({keys, values, 0, cuda::Cells::kF32, kCapacity, p, 0});
  }
  const OnGpu<cuda::Place> gpu_places(gpu(), std::span<const cuda::Place>(places));
  const std::vector<cuda::QueryRows> tiles = {{0, 2}, {2, 1}};
  const OnGpu<cuda::QueryRows> gpu_tiles(gpu(), std::span<const cuda::QueryRows>(tiles));
  const GpuRows q(gpu(), random_rows(kRows, kHeads * kDim, 2));
  constexpr int kChunks = 6;  // more than there are
  const GpuRows partials(gpu(), OwnRows(1, kRows * kChunks * kHeads * (kDim + 2)));
  const auto attend = [&](int chunks) {
    const GpuRows out(gpu(), OwnRows(kRows, kHeads * kDim));
    cuda::attention(stream_, {.q = q.rows().data,
                              .places = gpu_places.data(),
                              .layer = 0,
                              .tiles = gpu_tiles.data(),
                              .tile_count = 2,
                              .heads = kHeads,
                              .kv_heads = kKvHeads,
                              .head_dim = kDim,
                              .scale = 0.125f,
                              .out = out.rows().data,
                              .chunks = chunks,
                              .rows = kRows,
                              .partials = partials.rows().data});
    cuda::synchronize(stream_);
    return out.read();
  };
  const OwnRows expected = attend(0);
  expect_same(expected, attend(4), "split");
  expect_same(expected, attend(kChunks), "split, chunks to spare");
}

}  // namespace
}  // namespace strata::device::test
