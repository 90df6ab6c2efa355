// Attention on the GPU: which blocks compute what. The sums are the same however it is cut.
#include "src/device/cuda_state.hpp"

namespace strata::device {
namespace {

// Consecutive rows of one sequence, at most `most`, tile after tile.
void cut_tiles(std::span<const WindowRow> rows, int most, std::vector<cuda::QueryRows>& tiles) {
  const auto count = static_cast<int>(rows.size());
  tiles.clear();
  for (int first = 0; first < count;) {
    int last = first + 1;
    while (last < count && last - first < most &&
           rows[static_cast<std::size_t>(last)].cache.data ==
               rows[static_cast<std::size_t>(first)].cache.data) {
      ++last;
    }
    tiles.push_back({first, last - first});
    first = last;
  }
}

// Whether the rows are a prompt's: many of a sequence, with which the kernel for prompts is filled.
bool is_prompt(std::span<const WindowRow> rows, int head_dim) {
  std::size_t sequences = rows.empty() ? 0 : 1;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].cache.data != rows[i - 1].cache.data) ++sequences;
  }
  return head_dim <= cuda::kWideHeadDim && rows.size() >= 16 * sequences;
}

}  // namespace

void CudaDevice::attention(Rows q, int layer, const AttentionShape& shape, Rows out) {
  if (q.count == 0) return;
  State& s = *state_;
  s.writes(out.data);
  cuda::select_gpu(s.gpu.index);
  const int group = shape.heads / shape.kv_heads;
  cuda::AttentionArgs args{.q = q.data,
                           .places = s.window.places,
                           .layer = layer,
                           .heads = shape.heads,
                           .kv_heads = shape.kv_heads,
                           .head_dim = shape.head_dim,
                           .scale = shape.scale,
                           .out = out.data,
                           .rows = q.count};
  int queries = cuda::kAttentionQueries;
  int chunks = s.window.chunks;
  if (s.recording) {  // how rows share sequences may differ from window to window
    args.tiles = s.window.single;
    args.tile_count = q.count;
    chunks = window_kind();
  } else {
    const std::span<const WindowRow> rows = window(q.count);
    args.wide = is_prompt(rows, shape.head_dim);
    if (args.wide) queries = cuda::wide_attention_queries(shape.head_dim);
    cut_tiles(rows, std::max(1, queries / group), s.tiles);
    args.tiles = s.staging.bring(std::span<const cuda::QueryRows>(s.tiles));
    args.tile_count = static_cast<int>(s.tiles.size());
  }
  // Few rows over a long past leave the GPU idle when a block walks all chunks of its rows: then
  // each chunk is a block's.
  constexpr std::int64_t kMostPartials = std::int64_t{32} << 20;  // floats
  const std::int64_t tasks = static_cast<std::int64_t>(args.tile_count) * shape.kv_heads *
                             ((group + queries - 1) / queries);
  const std::int64_t partials =
      static_cast<std::int64_t>(args.rows) * chunks * shape.heads * (shape.head_dim + 2);
  if (chunks > 1 && tasks < 4 * s.gpu.multiprocessors && partials <= kMostPartials) {
    args.chunks = chunks;
    args.partials = s.partials.floats(partials);
  }
  cuda::attention(s.stream, args);
}

}  // namespace strata::device
