#include "strata/core/expert_store.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace strata::core {
namespace {

constexpr std::size_t kAlign = 64;

// Packs rows [first, first + rows) of a tensor, groups of 16 apart.
void pack_rows(const gguf::TensorInfo& tensor, std::int64_t first, std::int64_t rows,
               std::byte* dst) {
  const std::size_t group_bytes = quant::packed_group_bytes(tensor.type, tensor.ne[0]);
  for (std::int64_t r = 0; r < rows; r += quant::kGroupRows, dst += group_bytes) {
    const std::int64_t n = std::min<std::int64_t>(quant::kGroupRows, rows - r);
    const auto src = tensor.data.subspan(tensor.row_bytes * static_cast<std::uint64_t>(first + r),
                                         tensor.row_bytes * static_cast<std::uint64_t>(n));
    quant::pack_group(tensor.type, src, static_cast<int>(n), tensor.ne[0], dst);
  }
}

void pack_expert(const gguf::File& file, const model::LayerTensors& t,
                 const quant::ExpertLayout& layout, std::int64_t expert, std::byte* blob) {
  const std::int64_t rows = layout.hidden;
  const std::int64_t stride = t.fused() ? 2 * rows : rows;
  pack_rows(*t.gate, expert * stride, rows, blob);
  pack_rows(*t.up, expert * stride + (t.fused() ? rows : 0), rows, blob + layout.gate_bytes());
  pack_rows(*t.down, expert * layout.embd, layout.embd,
            blob + layout.gate_bytes() + layout.up_bytes());
  for (const gguf::TensorInfo* tensor : {t.gate, t.up, t.down}) {
    const std::size_t slab = tensor->row_bytes * static_cast<std::size_t>(tensor->ne[1]);
    file.release(*tensor, slab * static_cast<std::size_t>(expert), slab);
  }
}

}  // namespace

ExpertStore ExpertStore::load(const gguf::File& file, const model::ModelTensors& tensors,
                              const model::HParams& h, ThreadPool& pool, const Progress& progress,
                              const std::filesystem::path& folder) {
  ExpertStore store;
  for (int layer = 0; layer < h.layers; ++layer) {
    const model::LayerTensors& t = tensors.layers[index(layer)];
    const quant::ExpertLayout layout{t.gate->type, t.up->type, t.down->type, h.embd,
                                     h.expert_hidden};
    const std::size_t stride = (layout.bytes() + kAlign - 1) / kAlign * kAlign;
    const std::size_t bytes = stride * static_cast<std::size_t>(h.experts);
    Buffer blobs = folder.empty() ? Buffer(bytes) : Buffer::in_file(folder, bytes);
    pool.parallel_for(static_cast<std::size_t>(h.experts), [&](std::size_t e, int) {
      pack_expert(file, t, layout, static_cast<std::int64_t>(e), blobs.data() + stride * e);
    });
    store.layouts_.push_back(layout);
    store.strides_.push_back(stride);
    store.blobs_.push_back(std::move(blobs));
    if (progress) progress("experts", static_cast<double>(layer + 1) / h.layers);
  }
  return store;
}

std::size_t ExpertStore::total_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const Buffer& b : blobs_) bytes += b.size();
  return bytes;
}

void pack_matrix(const gguf::File& file, const gguf::TensorInfo& tensor, ThreadPool& pool,
                 std::byte* dst) {
  const std::int64_t rows = tensor.rows();
  const std::size_t group_bytes = quant::packed_group_bytes(tensor.type, tensor.ne[0]);
  constexpr std::int64_t kChunkRows = 64 * quant::kGroupRows;
  pool.parallel_for(
      static_cast<std::size_t>((rows + kChunkRows - 1) / kChunkRows), [&](std::size_t chunk, int) {
        const std::int64_t first = static_cast<std::int64_t>(chunk) * kChunkRows;
        const std::int64_t n = std::min(kChunkRows, rows - first);
        pack_rows(tensor, first, n,
                  dst + group_bytes * static_cast<std::size_t>(first / quant::kGroupRows));
        file.release(tensor, tensor.row_bytes * static_cast<std::size_t>(first),
                     tensor.row_bytes * static_cast<std::size_t>(n));
      });
}

}  // namespace strata::core
