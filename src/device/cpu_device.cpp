#include "strata/device/cpu_device.hpp"

#include "kernels/cpu/kernels.hpp"
#include "src/device/cpu_panels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace strata::device {
namespace {

class CpuMemory final : public Memory {
 public:
  explicit CpuMemory(Buffer&& buffer) : buffer_(std::move(buffer)) {
    data_ = buffer_.data();
    size_ = buffer_.size();
  }

 private:
  Buffer buffer_;
};

}  // namespace

CpuDevice::CpuDevice(ThreadPool& pool, const CpuDeviceOptions& options)
    : pool_(pool), kernels_(kernels::kernels_for(options.isa)), activations_(options.activations) {}

std::string CpuDevice::description() const {
  return fmt::format("CPU, {} thread{}, {} kernels, {} activations", pool_.size(),
                     pool_.size() == 1 ? "" : "s", isa_name(kernels_.isa),
                     activations_ == Activations::kInt8 ? "int8" : "f32");
}

std::byte* CpuDevice::Scratch::get(std::size_t bytes) {
  if (bytes > buffer_.size()) buffer_ = Buffer(bytes + bytes / 4);
  return buffer_.data();
}

std::unique_ptr<Memory> CpuDevice::allocate(std::size_t bytes) {
  return std::make_unique<CpuMemory>(Buffer(bytes));
}

std::unique_ptr<Memory> CpuDevice::upload(Buffer&& host) {
  return std::make_unique<CpuMemory>(std::move(host));
}

std::int64_t CpuDevice::task_size(std::size_t item_bytes, std::int64_t items,
                                  std::int64_t most) const noexcept {
  // Small tasks read best: threads that stand close together in memory share what it opened. Long
  // streams, one a thread, read a fifth slower (measured with 1 to 8192 KiB on two cores).
  constexpr std::size_t kTaskBytes = 32 * 1024;
  constexpr std::int64_t kTasksAThread = 8;
  const std::int64_t balanced = items / (pool_.size() * kTasksAThread);
  return std::clamp<std::int64_t>(
      std::min(balanced, static_cast<std::int64_t>(kTaskBytes / item_bytes)), 1, most);
}

bool CpuDevice::float_panels(gguf::Type type) const noexcept {
  return activations_ == Activations::kF32 || quant::is_float(type);
}

const CpuDevice::DotFunction* CpuDevice::dot_table(gguf::Type type) const noexcept {
  const auto i = static_cast<std::size_t>(type);
  return activations_ == Activations::kF32 ? kernels_.dot_f32[i] : kernels_.dot[i];
}

void CpuDevice::embed(const Linear& table, Rows out) {
  const std::span<const WindowRow> rows = window(out.count);
  spread(pool_, rows.size(), static_cast<std::size_t>(out.width) * 8, [&](std::size_t i, int) {
    quant::dequantize_packed_row(table.matrix, rows[i].token, out.row(static_cast<int>(i)));
  });
}

void CpuDevice::rms_norm(Rows x, const float* weight, float eps, Rows out) {
  spread(pool_, static_cast<std::size_t>(x.count), static_cast<std::size_t>(x.width),
         [&](std::size_t i, int) {
           const int row = static_cast<int>(i);
           kernels_.rms_norm(x.row(row), weight, x.width, eps, out.row(row));
         });
}

CpuDevice::Panels CpuDevice::make_panels(Rows x, bool int8, bool f32) {
  Panels panels;
  std::byte* codes = nullptr;
  float* floats = nullptr;
  if (int8) codes = panels_int8_.get(kernels::panel_bytes(x.width, x.count));
  if (f32) {
    floats = reinterpret_cast<float*>(
        panels_f32_.get(sizeof(float) * static_cast<std::size_t>(x.width * x.count)));
  }
  const TileCut cut(x.count);
  spread(pool_, static_cast<std::size_t>(x.count), static_cast<std::size_t>(x.width) * 2,
         [&](std::size_t i, int) {
           const int row = static_cast<int>(i);
           const Tile tile = cut.of_token(row);
           const int column = row - tile.first;
           if (int8) {
             kernels_.quantize(x.row(row), x.width,
                               codes + kernels::panel_bytes(x.width, tile.first), tile.tokens,
                               column);
           }
           if (f32) {
             float* panel = floats + x.width * tile.first;
             for (std::int64_t k = 0; k < x.width; ++k)
               panel[k * tile.tokens + column] = x.row(row)[k];
           }
         });
  panels.int8 = codes;
  panels.f32 = reinterpret_cast<const std::byte*>(floats);
  return panels;
}

void CpuDevice::linear(Rows x, std::span<const LinearOutput> outputs) {
  bool int8 = false;
  bool f32 = false;
  std::int64_t groups = 0;
  std::size_t bytes = 0;
  for (const LinearOutput& o : outputs) {
    (float_panels(o.weight->matrix.type) ? f32 : int8) = true;
    groups += o.weight->matrix.groups();
    bytes += o.weight->matrix.bytes();
  }
  const Panels panels = make_panels(x, int8, f32);

  // A task is some groups of one matrix times a stretch of tiles whose panels stay in the
  // second-level cache.
  constexpr int kTilesOfATask = 8;
  const TileCut cut(x.count);
  const int stretches = (cut.tiles() + kTilesOfATask - 1) / kTilesOfATask;
  const std::int64_t chunk =
      task_size(outputs[0].weight->matrix.group_bytes, groups * stretches, groups);
  std::int64_t tasks = 0;
  for (const LinearOutput& o : outputs) tasks += (o.weight->matrix.groups() + chunk - 1) / chunk;

  const auto run_task = [&](std::size_t index, int) {
    const int stretch = static_cast<int>(static_cast<std::int64_t>(index) / tasks);
    std::int64_t task = static_cast<std::int64_t>(index) % tasks;
    const LinearOutput* o = outputs.data();
    for (; task >= (o->weight->matrix.groups() + chunk - 1) / chunk; ++o) {
      task -= (o->weight->matrix.groups() + chunk - 1) / chunk;
    }
    const quant::PackedMatrix& m = o->weight->matrix;
    const bool floats = float_panels(m.type);
    const DotFunction* table = dot_table(m.type);
    const std::int64_t first = task * chunk;
    const std::int64_t last = std::min(m.groups(), first + chunk);
    const int tile_begin = stretch * kTilesOfATask;
    const int tile_end = std::min(cut.tiles(), tile_begin + kTilesOfATask);
    // With several tiles, one group at a time meets them all while its bytes are in the first-level
    // cache.
    const std::int64_t step = tile_end - tile_begin == 1 ? last - first : 1;
    for (std::int64_t g = first; g < last; g += step) {
      for (int i = tile_begin; i < tile_end; ++i) {
        const Tile tile = cut.tile(i);
        const std::byte* panel =
            floats ? panels.f32 + sizeof(float) * static_cast<std::size_t>(m.cols * tile.first)
                   : panels.int8 + kernels::panel_bytes(m.cols, tile.first);
        table[kernels::tile_index(tile.tokens)](
            {m.group(g), m.group_bytes, static_cast<int>(step), m.cols, panel,
             o->out.row(tile.first) + g * quant::kGroupRows, o->out.width, o->accumulate});
      }
    }
  };
  // Reading the weights takes about as long as one token's arithmetic.
  constexpr std::size_t kWorthWaking = 192 * 1024;
  if (bytes * static_cast<std::size_t>(x.count + 1) < kWorthWaking) {
    for (std::int64_t task = 0; task < tasks * stretches; ++task)
      run_task(static_cast<std::size_t>(task), 0);
  } else {
    pool_.parallel_for(static_cast<std::size_t>(tasks * stretches), run_task);
  }
}

void CpuDevice::rope(Rows x, int head_dim, const Rope& rope) {
  const std::span<const WindowRow> rows = window(x.count);
  spread(pool_, rows.size(), static_cast<std::size_t>(x.width), [&](std::size_t t, int) {
    const float* table = rope.table + static_cast<std::int64_t>(rows[t].position) * rope.n_rot;
    float* row = x.row(static_cast<int>(t));
    for (std::int64_t h = 0; h < x.width; h += head_dim)
      kernels_.rope(row + h, table, rope.n_rot, rope.neox);
  });
}

namespace {

// Where a position's key and value of one head lie. Keys of 16 positions are interleaved.
struct HeadCells {
  std::byte* key_group;  // the 16 keys'
  std::byte* value_row;
  std::int64_t lane;  // of the key in its group
  HeadCells(const KvLayer& cache, int position, int head, int head_dim)
      : key_group(cache.keys), value_row(cache.values), lane(position % 16) {
    const std::size_t row = kv_row_bytes(cache.type, head_dim);
    const std::int64_t first = static_cast<std::int64_t>(head) * cache.capacity;
    key_group += static_cast<std::size_t>(first + position - lane) * row;
    value_row += static_cast<std::size_t>(first + position) * row;
  }
};

// Cells of the same type as the rows.
template <class Cell>
void write_cells(const HeadCells& at, const Cell* key, const Cell* value, int head_dim) {
  Cell* keys = reinterpret_cast<Cell*>(at.key_group) + at.lane;
  for (std::int64_t d = 0; d < head_dim; ++d) keys[d * 16] = key[d];
  std::memcpy(at.value_row, value, sizeof(Cell) * static_cast<std::size_t>(head_dim));
}

void write_halves(const kernels::Kernels& kernels, const HeadCells& at, const float* key,
                  const float* value, int head_dim) {
  std::uint16_t key_half[kMaxHeadDim];
  std::uint16_t value_half[kMaxHeadDim];
  // The key goes to many lines, far away when many sequences take turns: all are asked for at once.
  for (int d = 0; d < head_dim; d += 2) __builtin_prefetch(at.key_group + d * 32, 1);
  kernels.to_half(key, head_dim, key_half);
  kernels.to_half(value, head_dim, value_half);
  write_cells(at, key_half, value_half, head_dim);
}

// Scales, then codes.
void write_q8(const kernels::Kernels& kernels, const HeadCells& at, const float* key,
              const float* value, int head_dim) {
  std::int8_t codes[kMaxHeadDim];
  std::uint16_t scales[kMaxHeadDim / kKvBlock];
  const int blocks = (head_dim + kKvBlock - 1) / kKvBlock;
  kernels.to_q8(key, head_dim, codes, scales);
  auto* key_scales = reinterpret_cast<std::uint16_t*>(at.key_group) + at.lane;
  for (int b = 0; b < blocks; ++b) key_scales[b * 16] = scales[b];
  auto* key_codes = reinterpret_cast<std::int8_t*>(at.key_group + 32 * blocks) + at.lane;
  for (int d = 0; d < head_dim; ++d) key_codes[d * 16] = codes[d];
  kernels.to_q8(value, head_dim, codes, scales);
  std::memcpy(at.value_row, scales, 2 * static_cast<std::size_t>(blocks));
  std::memcpy(at.value_row + 2 * blocks, codes, static_cast<std::size_t>(head_dim));
}

}  // namespace

void CpuDevice::kv_append(Rows k, Rows v, int layer, const AttentionShape& shape) {
  const int dim = shape.head_dim;
  const std::span<const WindowRow> rows = window(k.count);
  spread(pool_, rows.size(), static_cast<std::size_t>(k.width) * 2, [&](std::size_t t, int) {
    const KvLayer cache = rows[t].cache.layer(layer);
    for (int h = 0; h < shape.kv_heads; ++h) {
      const float* key = k.row(static_cast<int>(t)) + static_cast<std::int64_t>(h) * dim;
      const float* value = v.row(static_cast<int>(t)) + static_cast<std::int64_t>(h) * dim;
      const HeadCells at(cache, rows[t].position, h, dim);
      switch (cache.type) {
        case KvType::kF32:
          write_cells(at, key, value, dim);
          break;
        case KvType::kF16:
          write_halves(kernels_, at, key, value, dim);
          break;
        case KvType::kQ8_0:
          write_q8(kernels_, at, key, value, dim);
          break;
      }
    }
  });
}

void CpuDevice::route(Rows logits, const RouterShape& shape, std::int32_t* ids, float* weights) {
  constexpr float kMinSum = 6.103515625e-5f;  // 2^-14, as the models' own code clamps
  const std::size_t row_bytes = sizeof(float) * static_cast<std::size_t>(logits.width);
  std::byte* scratch = worker_scratch_.get(row_bytes * static_cast<std::size_t>(pool_.size()));
  spread(pool_, static_cast<std::size_t>(logits.count), static_cast<std::size_t>(shape.experts) * 8,
         [&](std::size_t t, int worker) {
           auto* p =
               reinterpret_cast<float*>(scratch + row_bytes * static_cast<std::size_t>(worker));
           kernels_.softmax(logits.row(static_cast<int>(t)), shape.experts, p);
           std::int32_t* id = ids + t * static_cast<std::size_t>(shape.used);
           float* weight = weights + t * static_cast<std::size_t>(shape.used);
           // Insertion into a short sorted list; only a strictly larger value moves ahead, so ties
           // keep the lower id.
           int held = 0;
           for (int e = 0; e < shape.experts; ++e) {
             if (held == shape.used && !(p[e] > weight[held - 1])) continue;
             int at = held < shape.used ? held++ : held - 1;
             for (; at > 0 && p[e] > weight[at - 1]; --at) {
               weight[at] = weight[at - 1];
               id[at] = id[at - 1];
             }
             weight[at] = p[e];
             id[at] = e;
           }
           if (!shape.renormalize) return;
           float sum = 0.0f;
           for (int r = 0; r < shape.used; ++r) sum += weight[r];
           sum = std::max(sum, kMinSum);
           for (int r = 0; r < shape.used; ++r) weight[r] /= sum;
         });
}

void CpuDevice::combine(Rows parts, const float* weights, int ranks, Rows x) {
  spread(pool_, static_cast<std::size_t>(x.count), static_cast<std::size_t>(x.width * ranks),
         [&](std::size_t t, int) {
           const int row = static_cast<int>(t);
           kernels_.combine(parts.row(row * ranks), weights + t * static_cast<std::size_t>(ranks),
                            ranks, x.width, x.row(row));
         });
}

}  // namespace strata::device
