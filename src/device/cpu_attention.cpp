// Attention on the CPU: query tiles that share a KV head, over chunks of positions joined in order.
#include "kernels/cpu/kernels.hpp"
#include "src/device/cpu_panels.hpp"
#include "strata/device/cpu_device.hpp"

#include <algorithm>

namespace strata::device {
namespace {

using kernels::kAttentionChunk;
using kernels::kMaxQueries;

// Consecutive rows of one sequence whose heads fill one kernel call.
struct QueryTile {
  int first;
  int tokens;
};

// The tile that starts at row `first`: as many rows of the same sequence as fit.
QueryTile next_tile(std::span<const WindowRow> places, int first, int heads_per_kv) {
  const int most = std::max(1, kMaxQueries / heads_per_kv);
  int last = first + 1;
  while (last < static_cast<int>(places.size()) && last - first < most &&
         places[last].cache.data == places[first].cache.data) {
    ++last;
  }
  return {first, last - first};
}

int chunks_of(const WindowRow& place) { return place.position / kAttentionChunk + 1; }

// The pieces of one kernel call: which rows, heads and positions.
struct ChunkCall {
  const Rows& q;
  std::span<const WindowRow> places;
  int layer;
  const AttentionShape& shape;
  const kernels::Kernels& kernels;

  // Rows [tile.first, +tokens) x query heads [head, +heads) of KV head `kv`, chunk `chunk`; rows
  // that see none of it are skipped. Results of row i, head h land at index i * heads + h of max,
  // sum and out.
  void run(QueryTile tile, int kv, int head, int heads, int chunk, float* scores, float* max,
           float* sum, float* out) const {
    const float* rows[kMaxQueries];
    int visible[kMaxQueries];
    const int begin = chunk * kAttentionChunk;
    int skipped = 0;
    while (places[tile.first + skipped].position < begin) ++skipped;
    int n = 0;
    for (int t = skipped; t < tile.tokens; ++t) {
      for (int h = 0; h < heads; ++h, ++n) {
        rows[n] = q.row(tile.first + t) + static_cast<std::int64_t>(head + h) * shape.head_dim;
        visible[n] = std::min(kAttentionChunk, places[tile.first + t].position - begin + 1);
      }
    }
    const KvLayer cache = places[tile.first].cache.layer(layer);
    const std::int64_t dim = shape.head_dim;
    const std::size_t from =
        static_cast<std::size_t>(static_cast<std::int64_t>(kv) * cache.capacity + begin) *
        kv_row_bytes(cache.type, shape.head_dim);
    const int at = skipped * heads;
    const auto attend = cache.type == KvType::kF16   ? kernels.attention_chunk_f16
                        : cache.type == KvType::kF32 ? kernels.attention_chunk_f32
                                                     : kernels.attention_chunk_q8;
    attend({rows, visible, n, *std::max_element(visible, visible + n), shape.head_dim,
            cache.keys + from, cache.values + from, shape.scale, scores, max + at, sum + at,
            out + at * dim});
  }
};

}  // namespace

void CpuDevice::attention(Rows q, int layer, const AttentionShape& shape, Rows out) {
  const std::span<const WindowRow> places = window(q.count);
  // Few rows over a long past leave threads idle when a task walks all chunks of its rows: then
  // chunks are tasks.
  const std::size_t tasks = places.size() * static_cast<std::size_t>(shape.kv_heads);
  int longest = 0;
  for (const WindowRow& p : places) longest = std::max(longest, chunks_of(p));
  if (longest > 1 && tasks < static_cast<std::size_t>(pool_.size()) * 4) {
    attention_by_chunk(q, layer, shape, out, longest);
  } else {
    attention_by_tile(q, layer, shape, out);
  }
}

void CpuDevice::attention_by_tile(Rows q, int layer, const AttentionShape& shape, Rows out) {
  const std::span<const WindowRow> places = window(q.count);
  const int heads_per_kv = shape.heads / shape.kv_heads;
  const std::int64_t dim = shape.head_dim;
  // A kernel call takes kMaxQueries rows; more query heads than that on one KV head go in several
  // calls.
  const int heads_a_call = std::min(heads_per_kv, kMaxQueries);
  const std::size_t scratch_bytes =
      sizeof(float) * static_cast<std::size_t>(kMaxQueries * (kAttentionChunk + 2 * dim));
  std::byte* scratch = worker_scratch_.get(scratch_bytes * static_cast<std::size_t>(pool_.size()));
  tiles_.clear();
  for (int first = 0; first < static_cast<int>(places.size());) {
    const QueryTile tile = next_tile(places, first, heads_per_kv);
    tiles_.emplace_back(tile.first, tile.tokens);
    first += tile.tokens;
  }
  const ChunkCall call{q, places, layer, shape, kernels_};
  pool_.parallel_for(
      tiles_.size() * static_cast<std::size_t>(shape.kv_heads), [&](std::size_t index, int worker) {
        const auto [first, tokens] = tiles_[index / static_cast<std::size_t>(shape.kv_heads)];
        const QueryTile tile{first, tokens};
        const int kv = static_cast<int>(index % static_cast<std::size_t>(shape.kv_heads));
        auto* scores =
            reinterpret_cast<float*>(scratch + scratch_bytes * static_cast<std::size_t>(worker));
        float* running =
            scores + kMaxQueries * kAttentionChunk;  // the first chunk's, then the joined result
        float* next = running + kMaxQueries * dim;
        float max[2][kMaxQueries];
        float sum[2][kMaxQueries];
        const int chunks = chunks_of(places[tile.first + tile.tokens - 1]);
        for (int h0 = 0; h0 < heads_per_kv; h0 += heads_a_call) {
          const int heads = std::min(heads_a_call, heads_per_kv - h0);
          const int head = kv * heads_per_kv + h0;
          call.run(tile, kv, head, heads, 0, scores, max[0], sum[0], running);
          for (int c = 1; c < chunks; ++c) {
            call.run(tile, kv, head, heads, c, scores, max[1], sum[1], next);
            for (int i = 0; i < tile.tokens * heads; ++i) {
              if (chunks_of(places[tile.first + i / heads]) <= c) continue;
              kernels_.attention_merge(&max[0][i], &sum[0][i], running + i * dim, max[1][i],
                                       sum[1][i], next + i * dim, shape.head_dim);
            }
          }
          for (int i = 0; i < tile.tokens * heads; ++i) {
            kernels_.divide(running + i * dim, sum[0][i], dim,
                            out.row(tile.first + i / heads) + (head + i % heads) * dim);
          }
        }
      });
}

// The same sums as attention_by_tile, cut the other way: one task a row, KV head and chunk, then
// one join a row and head.
void CpuDevice::attention_by_chunk(Rows q, int layer, const AttentionShape& shape, Rows out,
                                   int longest) {
  const std::span<const WindowRow> places = window(q.count);
  const int heads_per_kv = shape.heads / shape.kv_heads;
  const std::int64_t dim = shape.head_dim;
  const std::size_t score_bytes = sizeof(float) * kMaxQueries * kAttentionChunk;
  std::byte* scratch = worker_scratch_.get(score_bytes * static_cast<std::size_t>(pool_.size()));
  const std::size_t records = places.size() * static_cast<std::size_t>(shape.heads * longest);
  auto* max = reinterpret_cast<float*>(
      partials_.get(sizeof(float) * records * static_cast<std::size_t>(dim + 2)));
  float* sum = max + records;
  float* partial = sum + records;
  // Record of (row, head, chunk): heads of one kernel call lie side by side.
  const auto record = [&](std::int64_t row, std::int64_t head, std::int64_t chunk) {
    return (row * longest + chunk) * shape.heads + head;
  };
  const ChunkCall call{q, places, layer, shape, kernels_};
  const std::size_t kv_heads = static_cast<std::size_t>(shape.kv_heads);
  pool_.parallel_for(
      places.size() * kv_heads * static_cast<std::size_t>(longest),
      [&](std::size_t index, int worker) {
        const int row = static_cast<int>(index / (kv_heads * static_cast<std::size_t>(longest)));
        const int chunk = static_cast<int>(index / kv_heads % static_cast<std::size_t>(longest));
        const int kv = static_cast<int>(index % kv_heads);
        if (chunk >= chunks_of(places[row])) return;
        auto* scores =
            reinterpret_cast<float*>(scratch + score_bytes * static_cast<std::size_t>(worker));
        for (int h0 = 0; h0 < heads_per_kv; h0 += kMaxQueries) {
          const int heads = std::min(kMaxQueries, heads_per_kv - h0);
          const int head = kv * heads_per_kv + h0;
          const std::int64_t r = record(row, head, chunk);
          call.run({row, 1}, kv, head, heads, chunk, scores, max + r, sum + r, partial + r * dim);
        }
      });
  spread(pool_, places.size() * static_cast<std::size_t>(shape.heads),
         static_cast<std::size_t>(dim * longest), [&](std::size_t index, int) {
           const auto row = static_cast<int>(index / static_cast<std::size_t>(shape.heads));
           const auto head =
               static_cast<std::int64_t>(index % static_cast<std::size_t>(shape.heads));
           const std::int64_t r = record(row, head, 0);
           for (int c = 1; c < chunks_of(places[row]); ++c) {
             const std::int64_t s = record(row, head, c);
             kernels_.attention_merge(max + r, sum + r, partial + r * dim, max[s], sum[s],
                                      partial + s * dim, shape.head_dim);
           }
           kernels_.divide(partial + r * dim, sum[r], dim, out.row(row) + head * dim);
         });
}

}  // namespace strata::device
