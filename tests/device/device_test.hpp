// What the tests of the CPU device share: devices of every usable instruction set and several
// thread counts, random matrices, rows in memory of exactly their size.
#pragma once

#include "strata/base/isa.hpp"
#include "strata/device/cpu_device.hpp"
#include "strata/quant/dequantize.hpp"
#include "tests/support/random_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace strata::device::test {

using gguf::Type;

inline std::size_t size_of(std::int64_t n) { return static_cast<std::size_t>(n); }

inline const std::vector<Isa>& usable_isas() {
  static const std::vector<Isa> isas = [] {
    std::vector<Isa> usable;
    for (const IsaSupport& s : detect_isas()) {
      if (s.usable) usable.push_back(s.isa);
    }
    return usable;
  }();
  return isas;
}

// A device with a pool of its own.
struct OwnDevice {
  OwnDevice(Isa isa, int threads, Activations activations = Activations::kInt8)
      : pool(ThreadPoolOptions{.threads = threads, .cpus = {}}),
        device(pool, CpuDeviceOptions{isa, activations}) {}
  ThreadPool pool;
  CpuDevice device;
};

// The device that all others are compared with: the kernels that define the bits, one thread.
struct Reference : OwnDevice {
  explicit Reference(Activations activations = Activations::kInt8)
      : OwnDevice(Isa::kGeneric, 1, activations) {}
};

// Calls test(device) for every usable instruction set with 1, 2, 3 and 5 threads.
template <class Test>
void on_every_device(Activations activations, const Test& test) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(ThreadPoolOptions{.threads = threads, .cpus = {}});
    for (const Isa isa : usable_isas()) {
      CpuDevice device(pool, CpuDeviceOptions{isa, activations});
      SCOPED_TRACE(device.description());
      test(device);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Rows filled with NaN: what an operation leaves out is seen.
class OwnRows {
 public:
  OwnRows(int count, std::int64_t width)
      : data_(size_of(count * width), std::numeric_limits<float>::quiet_NaN()),
        count_(count),
        width_(width) {}
  OwnRows(std::vector<float> data, std::int64_t width)
      : data_(std::move(data)),
        count_(static_cast<int>(std::ssize(data_) / width)),
        width_(width) {}

  [[nodiscard]] Rows rows() { return {data_.data(), count_, width_}; }
  [[nodiscard]] std::span<const float> row(int i) const {
    return std::span(data_).subspan(size_of(i * width_), size_of(width_));
  }
  [[nodiscard]] std::vector<float>& data() { return data_; }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] std::int64_t width() const { return width_; }
  // Rows [first, first + count) of a copy.
  [[nodiscard]] OwnRows slice(int first, int count) const {
    const auto begin = data_.begin() + first * width_;
    return {std::vector<float>(begin, begin + count * width_), width_};
  }

 private:
  std::vector<float> data_;
  int count_;
  std::int64_t width_;
};

inline OwnRows random_rows(int count, std::int64_t width, unsigned seed, float sigma = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, sigma);
  std::vector<float> data(size_of(count * width));
  for (float& v : data) v = normal(random);
  return {std::move(data), width};
}

inline ::testing::AssertionResult same_bits(std::span<const float> expected,
                                            std::span<const float> actual) {
  if (expected.size() != actual.size()) {
    return ::testing::AssertionFailure() << expected.size() << " and " << actual.size();
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&expected[i], &actual[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure()
             << "element " << i << ": " << expected[i] << " expected, " << actual[i] << " found";
    }
  }
  return ::testing::AssertionSuccess();
}

// A matrix as the file has it, packed in memory of exactly its size, and as floats.
class Matrix {
 public:
  Matrix(Type type, int rows, std::int64_t cols, unsigned seed, double rms = 0.1)
      : file_(testing::random_weights(type, rows, cols, seed, rms)),
        values_(testing::dequantize(type, file_, cols)),
        packed_(quant::packed_bytes(type, rows, cols)) {
    linear_.matrix = {type, rows, cols, packed_.data(), quant::packed_group_bytes(type, cols)};
    pack(packed_);
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  [[nodiscard]] const Linear& linear() const { return linear_; }
  [[nodiscard]] Type type() const { return linear_.matrix.type; }
  [[nodiscard]] int rows() const { return static_cast<int>(linear_.matrix.rows); }
  [[nodiscard]] std::int64_t cols() const { return linear_.matrix.cols; }
  [[nodiscard]] std::int64_t padded_rows() const { return linear_.matrix.groups() * 16; }
  [[nodiscard]] std::span<const float> row(int r) const {
    return std::span(values_).subspan(size_of(r * cols()), size_of(cols()));
  }
  [[nodiscard]] std::span<const std::byte> packed() const { return packed_; }

 private:
  void pack(std::span<std::byte> dst) const {
    const quant::PackedMatrix& m = linear_.matrix;
    const std::size_t row_bytes = file_.size() / size_of(m.rows);
    for (std::int64_t g = 0; g < m.groups(); ++g) {
      const std::int64_t n = std::min<std::int64_t>(16, m.rows - g * 16);
      quant::pack_group(
          m.type, std::span(file_).subspan(row_bytes * size_of(g * 16), row_bytes * size_of(n)),
          static_cast<int>(n), m.cols, dst.data() + m.group_bytes * size_of(g));
    }
  }

  std::vector<std::byte> file_;
  std::vector<float> values_;
  std::vector<std::byte> packed_;
  Linear linear_;
};

// What a matrix of the type sees of a row: itself, or with int8 activations its rounded values.
inline std::vector<double> as_seen(std::span<const float> x, Type type, Activations activations) {
  std::vector<double> seen(x.begin(), x.end());
  if (activations == Activations::kF32 || quant::is_float(type)) return seen;
  for (std::size_t b = 0; b < x.size(); b += 32) {
    float amax = 0;
    for (std::size_t i = b; i < b + 32; ++i) amax = std::max(amax, std::fabs(x[i]));
    const float scale = amax / 127.0f;
    const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    for (std::size_t i = b; i < b + 32; ++i) {
      seen[i] = static_cast<double>(std::nearbyint(x[i] * inverse)) * static_cast<double>(scale);
    }
  }
  return seen;
}

// A dot product in double precision, and the sum of its terms' sizes, which rounding goes with.
struct Dot {
  double value = 0;
  double size = 0;
};
inline Dot dot(std::span<const float> w, std::span<const double> x) {
  Dot d;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double term = static_cast<double>(w[i]) * x[i];
    d.value += term;
    d.size += std::fabs(term);
  }
  return d;
}

inline constexpr double kDotTolerance = 3e-6;  // of Dot::size: a few roundings of f32

}  // namespace strata::device::test
