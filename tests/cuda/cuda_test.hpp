// What the tests of the CUDA device share. Each operation is compared with the CPU device's generic
// kernels bit for bit.
#pragma once

#include "strata/device/cuda_device.hpp"
#include "tests/device/device_test.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace strata::device::test {

// Skips where there is no GPU, and says why.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const CudaStatus status = cuda_status();
    if (!status.usable) GTEST_SKIP() << status.reason;
    gpu_ = make_cuda_device();
  }
  [[nodiscard]] Device& gpu() { return *gpu_; }
  [[nodiscard]] CpuDevice& cpu() { return reference_.device; }

 private:
  Reference reference_;
  std::unique_ptr<Device> gpu_;
};
template <class T>
class CudaTestOf : public CudaTest, public ::testing::WithParamInterface<T> {};

// An array on the device.
template <class T>
class OnGpu {
 public:
  OnGpu(Device& gpu, std::span<const T> values)
      : gpu_(gpu),
        memory_(gpu.allocate(std::max<std::size_t>(1, values.size_bytes()))),
        size_(values.size()) {
    if (size_ > 0) {
      gpu.copy_from_host(memory_->data(), reinterpret_cast<const std::byte*>(values.data()),
                         values.size_bytes());
    }
  }
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory_->data()); }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(size_);
    gpu_.copy_to_host(reinterpret_cast<std::byte*>(values.data()), memory_->data(),
                      size_ * sizeof(T));
    return values;
  }

 private:
  Device& gpu_;
  std::unique_ptr<Memory> memory_;
  std::size_t size_;
};

// Rows on the device, with the values of rows of the host.
class GpuRows {
 public:
  GpuRows(Device& gpu, OwnRows host)
      : floats_(gpu, host.data()), count_(host.count()), width_(host.width()) {}
  [[nodiscard]] Rows rows() const { return {floats_.data(), count_, width_}; }
  [[nodiscard]] OwnRows read() const { return {floats_.read(), width_}; }

 private:
  OnGpu<float> floats_;
  int count_;
  std::int64_t width_;
};

inline Linear upload(Device& gpu, const Matrix& m) {
  Linear linear = m.linear();
  Buffer host(m.packed().size());
  std::memcpy(host.data(), m.packed().data(), host.size());
  linear.memory = gpu.upload(std::move(host));
  linear.matrix.data = linear.memory->data();
  return linear;
}

inline void expect_same(OwnRows expected, OwnRows found, const std::string& what) {
  ASSERT_EQ(expected.count(), found.count());
  for (int i = 0; i < expected.count(); ++i) {
    ASSERT_TRUE(same_bits(expected.row(i), found.row(i))) << what << ", row " << i;
  }
}

// Ordinary values, and those that break careless kernels: zeros of both signs, zero blocks, one
// huge channel, values whose scale underflows, exact halves for the rounding rule.
inline OwnRows hard_rows(int count, std::int64_t width, unsigned seed) {
  OwnRows x = random_rows(count, width, seed);
  for (std::size_t i = 0; i < x.data().size(); ++i) {
    float& v = x.data()[i];
    switch ((i / 32 + seed) % 9) {
      case 0:
        v = i % 2 == 0 ? 0.0f : -0.0f;
        break;
      case 1:
        v = i % 32 == 5 ? 6.5e8f : v;
        break;
      case 2:
        v *= 1e-38f;
        break;
      case 3:
        v = i % 32 == 0 ? 127.0f : static_cast<float>(static_cast<int>(i % 32) - 16) + 0.5f;
        break;
      case 4:
        v *= 1e-41f;
        break;
      case 5: {  // halves of a step that is no power of two: x * (1 / scale) is not x / scale
        const float step = 0.1f * static_cast<float>(1 + i / 32 % 50);
        v = step *
            (i % 32 == 0 ? 127.0f : static_cast<float>(static_cast<int>(i % 32) * 7) - 99.5f);
        break;
      }
      default:
        break;
    }
  }
  return x;
}

inline std::string type_name(const ::testing::TestParamInfo<Type>& info) {
  return std::string(gguf::traits(info.param).name);
}
inline std::int64_t unit_of(Type type) { return std::max(32u, gguf::traits(type).block_elems); }

}  // namespace strata::device::test
