// Kernels of one row of activations: embedding, RMSNorm, RoPE, the KV cache, combine.
#pragma once

#include "kernels/cuda/formats.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/place.cuh"

namespace strata::cuda {

inline constexpr float kLargestHalf = 65504.0f;

// Of all threads: the cells of a window are fewer than 2^32, and the GPU divides 32 bits sooner.
template <int kThreads>
STRATA_DEVICE unsigned thread_of_grid(const Block<kThreads>& block, int thread) {
  return static_cast<unsigned>(block.index) * kThreads + static_cast<unsigned>(thread);
}

// 32 elements of row `row` of a group, exactly the values the blocks say.
template <class Format>
STRATA_DEVICE void dequantize_block(const std::byte* group, std::int64_t block, int row,
                                    float* out) {
  for (int t = 0; t < 4; ++t) {
    const LaneBlock d = Format::unpack(Format::fetch(group, block, row / 2, t), row / 2, t);
    const Scales& scales = d.scales[row % 2];
    STRATA_UNROLL(8)
    for (int i = 0; i < 8; ++i) {  // elements 4t..4t+3 and 16 later
      const std::uint32_t chunk = d.codes.a[i / 4 * 2 + row % 2];
      const auto code = static_cast<std::int8_t>(chunk >> (8 * (i % 4)));
      const int element = 4 * t + i % 4 + i / 4 * 16;
      float w = mul_rn(static_cast<float>(code - Format::kOffset),
                       scales.part[element / Format::kPartElems]);
      if constexpr (Format::kHasMin || Format::kAddsZero) w = add_rn(w, scales.min);
      out[element] = w;
    }
  }
}

template <class Format>
struct EmbedBlocks {  // a thread's piece of a row: a block of 32
  static constexpr int kElems = 32;
  STRATA_DEVICE static void copy(const std::byte* group, std::int64_t piece, int row, float* out) {
    dequantize_block<Format>(group, piece, row, out);
  }
};
template <class Format>
struct EmbedFloats {
  static constexpr int kElems = 1;
  STRATA_DEVICE static void copy(const std::byte* group, std::int64_t piece, int row, float* out) {
    *out = Format::value(group, 16 * piece + row);
  }
};

template <class Pieces>
struct EmbedKernel {
  static constexpr const char* kName = "embed";
  static constexpr int kThreads = 64;
  struct Shared {};
  EmbedArgs a;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const std::int64_t pieces = a.cols / Pieces::kElems;
      const std::int64_t i = block.index * kThreads + thread;
      if (i >= pieces * a.count) return;
      const std::int64_t token = i / pieces;
      const std::int64_t piece = i % pieces;
      const std::int32_t row = a.tokens[token];
      Pieces::copy(a.table + a.group_bytes * static_cast<std::size_t>(row / 16), piece, row % 16,
                   a.out + token * a.out_width + piece * Pieces::kElems);
    });
  }
};

// A block a row. The sum of squares is the CPU's: 16 lanes, each over its elements in order.
struct RmsNormKernel {
  static constexpr const char* kName = "rms_norm";
  static constexpr int kThreads = 256;
  static constexpr int kStage = 4096;  // elements at a time
  struct Shared {
    float x[kStage];
    float lanes[16];
    float inverse;
  };
  const float* x;
  const float* weight;
  std::int64_t width;
  float eps;
  float* y;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    const float* row = x + block.index * width;
    PerThread<float, kThreads> acc;
    for (std::int64_t base = 0; base < width; base += kStage) {
      const int n = static_cast<int>(width - base < kStage ? width - base : kStage);
      block.each([&](int thread) {
        for (int i = thread; i < n; i += kThreads) shared.x[i] = row[base + i];
      });
      block.each([&](int thread) {
        if (thread >= 16) return;
        float sum = base == 0 ? 0.0f : acc[thread];
        STRATA_UNROLL(8)
        for (int i = thread; i < n; i += 16) sum = fma_rn(shared.x[i], shared.x[i], sum);
        acc[thread] = sum;
      });
    }
    block.each([&](int thread) {
      if (thread < 16) shared.lanes[thread] = acc[thread];
    });
    block.each([&](int thread) {
      if (thread != 0) return;
      const float mean = div_rn(sum_lanes(shared.lanes), static_cast<float>(width));
      shared.inverse = div_rn(1.0f, sqrt_rn(add_rn(mean, eps)));
    });
    block.each([&](int thread) {
      for (std::int64_t i = thread; i < width; i += kThreads) {
        y[block.index * width + i] = mul_rn(mul_rn(row[i], shared.inverse), weight[i]);
      }
    });
  }
};

// Rows up to kWidth, as heads are: a half-warp a row, whose lanes are the CPU's.
struct RmsNormNarrowKernel {
  static constexpr const char* kName = "rms_norm";
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 256;
  static constexpr int kRows = kThreads / 16;
  static constexpr int kElems = kWidth / 16;  // of a lane
  struct Shared {
    float lanes[kRows][16];
  };
  struct Elems {
    float v[kElems];
  };
  const float* x;
  const float* weight;
  int width;
  int rows;
  float eps;
  float* y;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    PerThread<Elems, kThreads> elems;
    const auto each_element = [&](int thread, const auto& step) {
      const std::int64_t row = block.index * kRows + thread / 16;
      if (row >= rows) return;
      STRATA_UNROLL(16)
      for (int i = 0; i < kElems; ++i) {
        const int column = 16 * i + thread % 16;
        if (column < width) step(elems[thread].v[i], row * width + column, column);
      }
    };
    block.each([&](int thread) {
      each_element(thread, [&](float& v, std::int64_t at, int) { v = x[at]; });
      float sum = 0.0f;
      each_element(thread, [&](float& v, std::int64_t, int) { sum = fma_rn(v, v, sum); });
      shared.lanes[thread / 16][thread % 16] = sum;
    });
    block.lanes([&](int thread) {
      const float mean = div_rn(sum_lanes(shared.lanes[thread / 16]), static_cast<float>(width));
      const float inverse = div_rn(1.0f, sqrt_rn(add_rn(mean, eps)));
      each_element(thread, [&](float& v, std::int64_t at, int column) {
        y[at] = mul_rn(mul_rn(v, inverse), weight[column]);
      });
    });
  }
};

// A thread takes a column, so that rows move up one after the other.
struct KeepRowsKernel {
  static constexpr const char* kName = "keep_rows";
  static constexpr int kThreads = 64;
  struct Shared {};
  float* x;
  std::int64_t width;
  const std::int32_t* kept;
  int count;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const std::int64_t column = block.index * kThreads + thread;
      if (column >= width) return;
      for (std::int64_t i = 0; i < count; ++i) x[i * width + column] = x[kept[i] * width + column];
    });
  }
};

struct RopeKernel {
  static constexpr const char* kName = "rope";
  static constexpr int kThreads = 128;
  struct Shared {};
  RopeArgs a;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const unsigned half = static_cast<unsigned>(a.n_rot) / 2;
      const unsigned i = thread_of_grid(block, thread);
      const unsigned head = i / half;  // of all rows
      if (head >= static_cast<unsigned>(a.rows * a.heads)) return;
      const unsigned j = i % half;
      const float* table =
          a.table + static_cast<std::int64_t>(a.places[head / a.heads].position) * a.n_rot;
      const float c = table[j];
      const float s = table[half + j];
      float* base = a.x + head * a.head_dim;
      float* first = base + (a.neox ? j : 2 * j);
      float* second = base + (a.neox ? j + half : 2 * j + 1);
      const float x = *first;
      const float y = *second;
      // The sign of a zero is the CPU's: 0 - 0 where it works in whole vectors, else -0.
      const bool vector = a.neox && j < half / 16 * 16;
      const float ys = mul_rn(y, s);
      *first = fma_rn(x, c, vector ? sub_rn(0.0f, ys) : -ys);
      *second = fma_rn(y, c, mul_rn(x, s));
    });
  }
};

// A thread a cell.
struct KvAppendKernel {
  static constexpr const char* kName = "kv_append";
  static constexpr int kThreads = 128;
  struct Shared {};
  const float* k;
  const float* v;
  const Place* places;
  int layer;
  int rows;
  int kv_heads;
  int head_dim;

  struct Q8Cell {
    std::uint16_t scale;
    std::int8_t code;
  };
  // The CPU's to_q8, of dimension d of a head's row: every thread finds its block's scale itself.
  STRATA_DEVICE Q8Cell quantize(const float* row, int d) const {
    const int begin = d / kQ8Block * kQ8Block;
    const int end = begin + kQ8Block < head_dim ? begin + kQ8Block : head_dim;
    float top = 0.0f;
    for (int i = begin; i < end; ++i) top = max_of(abs_of(row[i]), top);
    const float exact = div_rn(top, 127.0f);
    Q8Cell cell;
    cell.scale = half_bits(exact < kLargestHalf ? exact : kLargestHalf);
    const float scale = half_value(cell.scale);
    const float code = round_even(mul_rn(row[d], scale > 0.0f ? div_rn(1.0f, scale) : 0.0f));
    const float below = code < 127.0f ? code : 127.0f;
    cell.code = static_cast<std::int8_t>(below > -127.0f ? below : -127.0f);
    return cell;
  }

  // Cell `index` of keys or values that have no scales.
  STRATA_DEVICE static void write(std::byte* cells, std::int64_t index, bool half, float value) {
    if (half) {
      reinterpret_cast<std::uint16_t*>(cells)[index] = half_bits(value);
    } else {
      reinterpret_cast<float*>(cells)[index] = value;
    }
  }

  // The layout: device::KvLayer.
  STRATA_DEVICE void write_q8(const Place& p, std::int64_t head, int d, const float* key,
                              const float* value) const {
    const std::int64_t lane = p.position % 16;
    const std::int64_t first = head * p.capacity + p.position;
    const int block = d / kQ8Block;
    const Q8Cell of_key = quantize(key, d);
    std::byte* group = p.keys + (first - lane) * q8_row_bytes(head_dim);
    store(group + 32 * q8_blocks(head_dim) + 16 * d + lane, of_key.code);
    const Q8Cell of_value = quantize(value, d);
    std::byte* row = p.values + first * q8_row_bytes(head_dim);
    store(row + 2 * q8_blocks(head_dim) + d, of_value.code);
    if (d % kQ8Block != 0) return;
    store(group + 32 * block + 2 * lane, of_key.scale);
    store(row + 2 * block, of_value.scale);
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const unsigned i = thread_of_grid(block, thread);
      const unsigned width = static_cast<unsigned>(kv_heads * head_dim);
      if (i >= static_cast<unsigned>(rows) * width) return;
      const Place p = at_layer(places[i / width], layer);
      const std::int64_t head = i % width / static_cast<unsigned>(head_dim);
      const std::int64_t d = i % static_cast<unsigned>(head_dim);
      const std::int64_t position = p.position;
      if (p.cells == Cells::kQ8) {
        write_q8(p, head, static_cast<int>(d), k + i - d, v + i - d);
        return;
      }
      const bool half = p.cells == Cells::kF16;
      write(p.keys,
            ((head * (p.capacity / 16) + position / 16) * head_dim + d) * 16 + position % 16, half,
            k[i]);
      write(p.values, (head * p.capacity + position) * head_dim + d, half, v[i]);
    });
  }
};

struct CombineKernel {
  static constexpr const char* kName = "combine";
  static constexpr int kThreads = 128;
  struct Shared {};
  const float* parts;
  const float* weights;
  int ranks;
  std::int64_t width;
  int rows;
  float* x;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const unsigned i = thread_of_grid(block, thread);
      const auto columns = static_cast<unsigned>(width);
      if (i >= static_cast<unsigned>(rows) * columns) return;
      const std::int64_t row = i / columns;
      const float* part = parts + row * ranks * width + i % columns;
      const float* weight = weights + row * ranks;
      float acc = 0.0f;
      for (int r = 0; r < ranks; ++r) acc = fma_rn(weight[r], part[r * width], acc);
      x[i] = add_rn(x[i], acc);
    });
  }
};

}  // namespace strata::cuda
