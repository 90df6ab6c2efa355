// The CPU expert pool: the tokens that chose an expert through gate and up, then through down.
// Small experts are a task each; large ones are cut by rows, in two phases.
#include "kernels/cpu/kernels.hpp"
#include "src/device/cpu_panels.hpp"
#include "strata/device/cpu_device.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace strata::device {
namespace {

using kernels::kPanelBlockBytes;
using kernels::panel_bytes;

// Copies single-token panels into one of `tile.tokens`.
void gather_int8(const std::byte* rows, std::size_t row_bytes, std::span<const std::int32_t> tokens,
                 std::int64_t cols, std::byte* panel) {
  const std::size_t width = tokens.size();
  for (std::size_t t = 0; t < width; ++t) {
    const std::byte* src = rows + row_bytes * static_cast<std::size_t>(tokens[t]);
    for (std::int64_t b = 0; b < cols / 32; ++b, src += kPanelBlockBytes) {
      std::byte* block = panel + static_cast<std::size_t>(b) * width * kPanelBlockBytes;
      std::memcpy(block + 32 * t, src, 32);
      std::memcpy(block + 32 * width + sizeof(kernels::BlockMeta) * t, src + 32,
                  sizeof(kernels::BlockMeta));
    }
  }
}

void gather_f32(const Rows& x, std::span<const std::int32_t> tokens, float* panel) {
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const float* src = x.row(tokens[t]);
    for (std::int64_t k = 0; k < x.width; ++k)
      panel[static_cast<std::size_t>(k) * tokens.size() + t] = src[k];
  }
}

}  // namespace

// Token columns of all work items stand in one line, item after item; item i's begin at starts[i].
struct CpuDevice::ExpertPlan {
  quant::ExpertLayout layout;
  std::span<const ExpertWork> work;
  std::span<const std::int32_t> starts;
  // What each matrix reads: float panels (float weights or f32 activations) or int8 ones. Gate and
  // up need not agree.
  bool float_gate;
  bool float_up;
  bool float_hidden;
  Rows x;
  std::byte* x_int8 = nullptr;        // all columns, in tiles
  std::byte* x_f32 = nullptr;         // the same as floats
  const std::byte* x_rows = nullptr;  // single-token int8 panels by token of the window
  std::byte* hidden_panels = nullptr;

  [[nodiscard]] std::size_t x_offset(std::int64_t column, bool floats) const noexcept {
    return floats ? sizeof(float) * static_cast<std::size_t>(layout.embd * column)
                  : panel_bytes(layout.embd, static_cast<int>(column));
  }
  [[nodiscard]] std::size_t hidden_offset(std::int64_t column) const noexcept {
    return float_hidden ? sizeof(float) * static_cast<std::size_t>(layout.hidden * column)
                        : panel_bytes(layout.hidden, static_cast<int>(column));
  }
  // The panel a tile of item `i` reads; a single token needs no gathering.
  [[nodiscard]] const std::byte* x_panel(std::size_t i, Tile tile, bool floats) const noexcept {
    if (floats) return x_f32 + x_offset(starts[i] + tile.first, true);
    if (tile.tokens == 1) {
      return x_rows +
             panel_bytes(layout.embd, 1) * static_cast<std::size_t>(work[i].tokens[tile.first]);
    }
    return x_int8 + x_offset(starts[i] + tile.first, false);
  }
  [[nodiscard]] TileCut cut(std::size_t i) const noexcept {
    return TileCut(static_cast<int>(work[i].tokens.size()));
  }
  [[nodiscard]] std::int64_t hidden_blocks() const noexcept { return layout.hidden / 32; }
  [[nodiscard]] std::int64_t down_groups() const noexcept {
    return (layout.embd + quant::kGroupRows - 1) / quant::kGroupRows;
  }
  void gather(std::size_t i) const;
};

// Item i's panels of x.
void CpuDevice::ExpertPlan::gather(std::size_t i) const {
  const TileCut tiles = cut(i);
  for (int t = 0; t < tiles.tiles(); ++t) {
    const Tile tile = tiles.tile(t);
    const auto tokens = work[i].tokens.subspan(static_cast<std::size_t>(tile.first),
                                               static_cast<std::size_t>(tile.tokens));
    const std::int32_t column = starts[i] + tile.first;
    if (x_f32 != nullptr)
      gather_f32(x, tokens, reinterpret_cast<float*>(x_f32 + x_offset(column, true)));
    if (x_int8 != nullptr && tile.tokens > 1) {
      gather_int8(x_rows, panel_bytes(x.width, 1), tokens, x.width,
                  x_int8 + x_offset(column, false));
    }
  }
}

void CpuDevice::experts(Rows x, const quant::ExpertLayout& layout, std::span<const ExpertWork> work,
                        Rows parts) {
  if (work.empty()) return;
  expert_starts_.clear();
  std::int32_t columns = 0;
  for (const ExpertWork& w : work) {
    expert_starts_.push_back(columns);
    columns += static_cast<std::int32_t>(w.tokens.size());
  }
  ExpertPlan plan{.layout = layout,
                  .work = work,
                  .starts = expert_starts_,
                  .float_gate = float_panels(layout.gate_type),
                  .float_up = float_panels(layout.up_type),
                  .float_hidden = float_panels(layout.down_type),
                  .x = x};
  plan.hidden_panels = hidden_panels_.get(plan.hidden_offset(columns));
  const bool floats = plan.float_gate || plan.float_up;
  if (floats) plan.x_f32 = panels_f32_.get(plan.x_offset(columns, true));
  if (!plan.float_gate || !plan.float_up) {
    plan.x_int8 = expert_panels_.get(plan.x_offset(columns, false));
    const std::size_t row_bytes = panel_bytes(x.width, 1);
    std::byte* rows = panels_int8_.get(row_bytes * static_cast<std::size_t>(x.count));
    spread(pool_, static_cast<std::size_t>(x.count), static_cast<std::size_t>(x.width) * 2,
           [&](std::size_t t, int) {
             kernels_.quantize(x.row(static_cast<int>(t)), x.width, rows + row_bytes * t, 1, 0);
           });
    plan.x_rows = rows;
  }
  constexpr std::size_t kWholeBytes = 64 * 1024;
  constexpr std::size_t kItemsAThread = 4;
  if (layout.bytes() <= kWholeBytes &&
      work.size() >= kItemsAThread * static_cast<std::size_t>(pool_.size())) {
    whole(plan, parts);
    return;
  }
  if (floats || static_cast<std::size_t>(columns) > work.size()) {
    spread(pool_, work.size(),
           static_cast<std::size_t>(x.width * (columns / static_cast<int>(work.size()) + 1)),
           [&](std::size_t i, int) { plan.gather(i); });
  }
  by_rows(plan, parts);
}

// A thread computes experts from their first byte to their last, and takes the next one before it
// begins: it is brought near meanwhile.
void CpuDevice::whole(const ExpertPlan& plan, Rows parts) {
  std::atomic<std::size_t> taken{0};
  const auto take = [&] { return taken.fetch_add(1, std::memory_order_relaxed); };
  const std::size_t items = plan.work.size();
  pool_.parallel_for(static_cast<std::size_t>(pool_.size()), [&](std::size_t, int) {
    for (std::size_t i = take(); i < items;) {
      const std::size_t next = take();
      const std::byte* next_blob = next < items ? plan.work[next].blob : nullptr;
      plan.gather(i);
      gate_up(plan, i, {0, plan.hidden_blocks()}, next_blob);
      down(plan, i, {0, plan.down_groups()}, next_blob, parts);
      i = next;
    }
  });
}

void CpuDevice::by_rows(const ExpertPlan& plan, Rows parts) {
  const quant::ExpertLayout& layout = plan.layout;
  // Calls job(item, first, last) for all pieces [0, pieces) of all items, `task` of them at a time.
  const auto each = [&](std::int64_t pieces, std::int64_t task, const auto& job) {
    const auto tasks = static_cast<std::size_t>((pieces + task - 1) / task);
    pool_.parallel_for(plan.work.size() * tasks, [&](std::size_t index, int) {
      const std::int64_t first = static_cast<std::int64_t>(index % tasks) * task;
      job(index / tasks, first, std::min(pieces, first + task));
    });
  };
  const std::int64_t items = std::ssize(plan.work);
  const std::int64_t blocks = plan.hidden_blocks();
  const std::size_t block_bytes = 2 * (quant::packed_group_bytes(layout.gate_type, layout.embd) +
                                       quant::packed_group_bytes(layout.up_type, layout.embd));
  each(blocks, task_size(block_bytes, blocks * items, blocks),
       [&](std::size_t i, std::int64_t first, std::int64_t last) {
         gate_up(plan, i, {first, last}, nullptr);
       });
  const std::int64_t groups = plan.down_groups();
  const std::size_t group_bytes = quant::packed_group_bytes(layout.down_type, layout.hidden);
  each(groups, task_size(group_bytes, groups * items, groups),
       [&](std::size_t i, std::int64_t first, std::int64_t last) {
         down(plan, i, {first, last}, nullptr, parts);
       });
}

// Hidden units in blocks of 32, each quantised for `down` as soon as it is known.
void CpuDevice::gate_up(const ExpertPlan& plan, std::size_t i, Span blocks,
                        const std::byte* next_blob) {
  constexpr std::int64_t kMaxSpan = 8;  // blocks computed before they are looked at
  const quant::ExpertLayout& layout = plan.layout;
  const std::byte* blob = plan.work[i].blob;
  const quant::PackedMatrix gate = layout.gate(blob);
  const quant::PackedMatrix up = layout.up(blob);
  const quant::PackedMatrix next_gate = layout.gate(next_blob != nullptr ? next_blob : blob);
  const quant::PackedMatrix next_up = layout.up(next_blob != nullptr ? next_blob : blob);
  const DotFunction* gate_dot = dot_table(layout.gate_type);
  const DotFunction* up_dot = dot_table(layout.up_type);
  const TileCut cut = plan.cut(i);
  alignas(64) float g[kernels::kMaxTile * 32 * kMaxSpan];
  alignas(64) float u[kernels::kMaxTile * 32 * kMaxSpan];
  // One tile: long streams through gate, then up. Several: each block meets them all while its
  // weights are near.
  const std::int64_t most = cut.tiles() == 1 ? kMaxSpan : 1;
  for (std::int64_t block = blocks.first; block < blocks.last; block += most) {
    const std::int64_t step = std::min(most, blocks.last - block);
    for (int t = 0; t < cut.tiles(); ++t) {
      const Tile tile = cut.tile(t);
      const int width = kernels::tile_index(tile.tokens);
      const int groups = static_cast<int>(2 * step);
      const bool ask = t == 0 && next_blob != nullptr;
      gate_dot[width]({gate.group(2 * block), gate.group_bytes, groups, layout.embd,
                       plan.x_panel(i, tile, plan.float_gate), g, 32 * step, false,
                       ask ? next_gate.group(2 * block) : nullptr});
      up_dot[width]({up.group(2 * block), up.group_bytes, groups, layout.embd,
                     plan.x_panel(i, tile, plan.float_up), u, 32 * step, false,
                     ask ? next_up.group(2 * block) : nullptr});
      std::byte* hidden = plan.hidden_panels + plan.hidden_offset(plan.starts[i] + tile.first);
      for (std::int64_t b = 0; b < step; ++b) {
        if (plan.float_hidden) {
          kernels_.swiglu_f32(g + 32 * b, u + 32 * b, 32 * step, tile.tokens,
                              reinterpret_cast<float*>(hidden), block + b);
        } else {
          kernels_.swiglu_quantize(g + 32 * b, u + 32 * b, 32 * step, tile.tokens, hidden,
                                   block + b);
        }
      }
    }
  }
}

// Rows of the output, in groups of 16.
void CpuDevice::down(const ExpertPlan& plan, std::size_t i, Span groups, const std::byte* next_blob,
                     Rows parts) {
  constexpr std::int64_t kGroupsAtOnce = 2;
  constexpr std::int64_t kStride = kGroupsAtOnce * quant::kGroupRows;
  const quant::ExpertLayout& layout = plan.layout;
  const std::byte* blob = plan.work[i].blob;
  const quant::PackedMatrix down = layout.down(blob);
  const quant::PackedMatrix next = layout.down(next_blob != nullptr ? next_blob : blob);
  const DotFunction* dot = dot_table(layout.down_type);
  const TileCut cut = plan.cut(i);
  float y[kernels::kMaxTile * kStride];
  for (int t = 0; t < cut.tiles(); ++t) {
    const Tile tile = cut.tile(t);
    const std::byte* panel = plan.hidden_panels + plan.hidden_offset(plan.starts[i] + tile.first);
    const auto compute = [&](std::int64_t first, std::int64_t count, float* out,
                             std::int64_t stride) {
      const bool ask = t == 0 && next_blob != nullptr;
      dot[kernels::tile_index(tile.tokens)]({down.group(first), down.group_bytes,
                                             static_cast<int>(count), layout.hidden, panel, out,
                                             stride, false, ask ? next.group(first) : nullptr});
    };
    const std::int32_t* rows = plan.work[i].rows.data() + tile.first;
    if (tile.tokens == 1) {
      compute(groups.first, groups.last - groups.first,
              parts.row(rows[0]) + groups.first * quant::kGroupRows, parts.width);
      continue;
    }
    for (std::int64_t g = groups.first; g < groups.last; g += kGroupsAtOnce) {
      const std::int64_t count = std::min(kGroupsAtOnce, groups.last - g);
      compute(g, count, y, kStride);
      for (int token = 0; token < tile.tokens; ++token) {
        std::memcpy(parts.row(rows[token]) + g * quant::kGroupRows, y + token * kStride,
                    sizeof(float) * static_cast<std::size_t>(count * quant::kGroupRows));
      }
    }
  }
}

}  // namespace strata::device
