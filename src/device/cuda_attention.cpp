// Attention on the GPU: which blocks compute what. The sums are the same however it is cut.
#include "src/device/cuda_state.hpp"

namespace strata::device {
namespace {

// Consecutive rows of one sequence whose heads fill a block, tile after tile.
void cut_tiles(std::span<const TokenPlace> places, int heads_per_kv,
               std::vector<cuda::QueryRows>& tiles) {
  const int most = std::max(1, cuda::kAttentionQueries / heads_per_kv);
  const auto count = static_cast<int>(places.size());
  tiles.clear();
  for (int first = 0; first < count;) {
    int last = first + 1;
    while (last < count && last - first < most &&
           places[static_cast<std::size_t>(last)].cache.keys ==
               places[static_cast<std::size_t>(first)].cache.keys) {
      ++last;
    }
    tiles.push_back({first, last - first});
    first = last;
  }
}

}  // namespace

void CudaDevice::attention(Rows q, std::span<const TokenPlace> places, const AttentionShape& shape,
                           Rows out) {
  if (places.empty()) return;
  State& s = *state_;
  cuda::select_gpu(s.gpu.index);
  const int group = shape.heads / shape.kv_heads;
  cut_tiles(places, group, s.tiles);
  int chunks = 0;
  s.places.clear();
  for (const TokenPlace& p : places) {
    chunks = std::max(chunks, p.position / cuda::kAttentionSpan + 1);
    s.places.push_back(to_place(p));
  }
  s.staging.begin(s.places.size() * sizeof(cuda::Place) + s.tiles.size() * sizeof(cuda::QueryRows),
                  2);
  cuda::AttentionArgs args{.q = q.data,
                           .places = s.staging.put(std::span<const cuda::Place>(s.places)),
                           .tiles = s.staging.put(std::span<const cuda::QueryRows>(s.tiles)),
                           .tile_count = static_cast<int>(s.tiles.size()),
                           .heads = shape.heads,
                           .kv_heads = shape.kv_heads,
                           .head_dim = shape.head_dim,
                           .scale = shape.scale,
                           .out = out.data,
                           .rows = static_cast<int>(places.size())};
  s.staging.send();
  // Few rows over a long past leave the GPU idle when a block walks all chunks of its rows: then
  // each chunk is a block's.
  constexpr std::int64_t kMostPartials = std::int64_t{32} << 20;  // floats
  const std::int64_t tasks = static_cast<std::int64_t>(s.tiles.size()) * shape.kv_heads *
                             ((group + cuda::kAttentionQueries - 1) / cuda::kAttentionQueries);
  const std::int64_t partials =
      static_cast<std::int64_t>(args.rows) * chunks * shape.heads * (shape.head_dim + 2);
  if (chunks > 1 && tasks < 4 * s.gpu.multiprocessors && partials <= kMostPartials) {
    args.chunks = chunks;
    args.partials = s.partials.floats(partials);
  }
  cuda::attention(s.stream, args);
}

}  // namespace strata::device
