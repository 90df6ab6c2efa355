#include "bench/cuda/variants.hpp"
#include "kernels/cuda/attention.cuh"

namespace strata::cuda {
namespace {

template <int kQ, int kResident, class Show>
void variant(const Show& show, Bench& b, AttentionArgs& a, std::int32_t* arrivals) {
  char name[64];
  for (const bool one : {true, false}) {
    std::snprintf(name, sizeof name, "q%d r%d %s", kQ, kResident, one ? "one launch" : "two launches");
    a.arrivals = one ? arrivals : nullptr;
    const int group = a.heads / a.kv_heads;
    show(name, [&] {
      launch(b.timer.stream, a.chunks * a.kv_heads * ceil_div(group, kQ), AttentionKernel<kQ, kResident>{a});
      if (!one && a.chunks > 1) launch(b.timer.stream, a.heads, AttentionJoinKernel{a});
    });
  }
}

}  // namespace

void run_attention(Bench& b) {
  constexpr int kHeads = 32, kKv = 4, kDim = 128;
  for (const int position : {0, 100, 255, 1000, 4000, 32000}) {
    const int capacity = (position + 16) / 16 * 16;
    const std::size_t half = std::size_t{2} * kKv * kDim * capacity;
    const int n = static_cast<int>(std::min<std::size_t>(48, Bench::kBytes / (2 * half)));
    std::vector<Place> places;
    for (int i = 0; i < n; ++i) {
      places.push_back({b.weights + 2 * half * i, b.weights + 2 * half * i + half, Cells::kF16, capacity, position, 0});
    }
    Place* p;
    QueryRows* tiles;
    float* partials;
    const QueryRows tile{0, 1};
    cudaMalloc(&p, sizeof(Place) * n);
    cudaMalloc(&tiles, sizeof tile);
    cudaMalloc(&partials, 64 << 20);
    cudaMemcpy(p, places.data(), sizeof(Place) * n, cudaMemcpyHostToDevice);
    cudaMemcpy(tiles, &tile, sizeof tile, cudaMemcpyHostToDevice);
    AttentionArgs a;
    a.q = reinterpret_cast<float*>(b.x);
    a.tiles = tiles;
    a.tile_count = 1;
    a.heads = kHeads;
    a.kv_heads = kKv;
    a.head_dim = kDim;
    a.scale = 0.1f;
    a.out = b.out;
    a.rows = 1;
    a.chunks = position / 256 + 1 > 1 ? position / 256 + 1 : 0;
    a.partials = partials;
    const int chunks = position / 256 + 1;
    std::int32_t* arrivals;
    cudaMalloc(&arrivals, 4096);
    cudaMemset(arrivals, 0, 4096);
    const auto show = [&](const char* name, const auto& call) {
      const double us = b.timer.us(n, [&](int i) {
        a.places = p + i;
        call();
      });
      std::printf("attention at %5d %s: %7.2f us %5.1f %% %s\n", position, name, us,
                  100 * 2.0 * kKv * kDim * 2 * (position + 1) / us / 1e-6 / b.copy, cudaGetErrorString(cudaGetLastError()));
    };
    a.chunks = chunks;
    variant<1, 1>(show, b, a, arrivals);
    variant<2, 1>(show, b, a, arrivals);
    variant<2, 2>(show, b, a, arrivals);
    variant<4, 1>(show, b, a, arrivals);
    variant<4, 2>(show, b, a, arrivals);
    variant<8, 1>(show, b, a, arrivals);
    variant<8, 2>(show, b, a, arrivals);
    cudaFree(arrivals);
    cudaFree(p);
    cudaFree(tiles);
    cudaFree(partials);
  }
}


}  // namespace strata::cuda
