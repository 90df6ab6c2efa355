// What the CUDA kernels can do that no operation of device::Device asks of them alone.
#include "kernels/cuda/kernels.hpp"
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

}  // namespace
}  // namespace strata::device::test
