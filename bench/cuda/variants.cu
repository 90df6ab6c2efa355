// Temporary: times the kernels in graphs.
#include "bench/cuda/variants.hpp"
#include "kernels/cuda/formats.cuh"

namespace strata::cuda {
namespace {

void time_attention(Bench& b) {
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
    const auto show = [&](const char* name, const auto& call) {
      const double us = b.timer.us(n, [&](int i) {
        a.places = p + i;
        call();
      });
      std::printf("attention at %5d %s: %7.2f us %5.1f %% %s\n", position, name, us,
                  100 * 2.0 * kKv * kDim * 2 * (position + 1) / us / 1e-6 / b.copy, cudaGetErrorString(cudaGetLastError()));
    };
    a.chunks = chunks;
    show("", [&] { attention(b.timer.stream, a); });
    cudaFree(p);
    cudaFree(tiles);
    cudaFree(partials);
  }
}


void time_rows(Bench& b) {
  const auto show = [&](const char* what, const auto& call) { std::printf("%-30s %6.2f us\n", what, b.timer.us(100, call)); };
  float* x = reinterpret_cast<float*>(b.x);
  const auto s = b.timer.stream;
  show("rms_norm 2048", [&](int) { rms_norm(s, x, x + 65536, 2048, 1, 1e-6f, x); });
  std::byte* panels = b.x + (8 << 20);
  NormArgs n{.x = x, .width = 2048, .rows = 1, .weight = x + 65536, .eps = 1e-6f, .panels = panels};
  show("norm + quantize 2048", [&](int) { rms_norm(s, n); });
  n.y = b.out;
  show("norm + floats + quantize 2048", [&](int) { rms_norm(s, n); });
  n.parts = x + 65536;
  n.weights = x;
  n.ranks = 8;
  n.sum = b.out + 65536;
  show("combine + norm + quantize 2048", [&](int) { rms_norm(s, n); });
  Place* place;
  const Place host{b.weights, b.weights + (32 << 20), Cells::kF16, 4096, 1000, 0};
  cudaMalloc(&place, sizeof host);
  cudaMemcpy(place, &host, sizeof host, cudaMemcpyHostToDevice);
  show("heads 32 + 4 of 128", [&](int) {
    heads(s, {.q = x, .k = x + 65536, .v = x + 65536, .q_norm = x, .k_norm = x, .eps = 1e-6f, .places = place, .rows = 1,
              .heads = 32, .kv_heads = 4, .head_dim = 128, .table = x + 131072, .n_rot = 128, .neox = true});
  });
  {
    DotArgs a;
    a.targets[0] = {.weights = b.weights, .groups = 8, .out = b.out, .out_width = 128};
    a.target_count = 1;
    a.group_bytes = 64 * 2048;
    a.cols = 2048;
    a.x = b.x;
    a.x_row_bytes = 8192;
    a.columns = 1;
    show("router 128 x 2048 F32", [&](int i) {
      a.targets[0].weights = b.weights + (i << 21);
      dot(s, gguf::Type::kF32, a);
    });
  }
  show("rms_norm 32 x 128", [&](int) { rms_norm(s, x, x + 65536, 128, 32, 1e-6f, x); });
  show("quantize 2048", [&](int) { quantize(s, x, 64, b.x + (8 << 20)); });
  show("swiglu_quantize 8 x 768", [&](int) { swiglu_quantize(s, x, x + 65536, 8 * 24, b.x + (8 << 20)); });
  show("combine 8 x 2048", [&](int) { combine(s, x + 65536, x, 8, 2048, 1, b.out); });
  for (const int experts : {128, 512}) {
    RouteArgs r;
    r.logits = x;
    r.width = experts;
    r.rows = 1;
    r.experts = experts;
    r.used = 8;
    r.renormalize = true;
    r.ids = reinterpret_cast<std::int32_t*>(b.x + (8 << 20));
    r.weights = x + (4 << 20);
    show(experts == 128 ? "route 128" : "route 512", [&](int) { route(s, r); });
  }
}


std::size_t group_bytes(std::size_t unit_bytes, int unit, int cols) { return unit_bytes * (cols / unit); }

void time_type(Bench& b, gguf::Type type, const char* name, int tokens, std::size_t unit_bytes, int unit) {
  std::printf("%-28s %d", name, tokens);
  const auto show = [&](double us, double bytes) {
    std::printf("  %7.2f us %5.1f %%", us, 100 * bytes / us / 1e-6 / b.copy);
  };
  const auto dense = [&](int rows, int cols) {
    const std::size_t gb = group_bytes(unit_bytes, unit, cols);
    const std::size_t bytes = gb * (rows / 16);
    const int n = static_cast<int>(std::min<std::size_t>(100, Bench::kBytes / bytes));
    DotArgs a;
    a.targets[0].groups = rows / 16;
    a.targets[0].out = b.out;
    a.targets[0].out_width = rows;
    a.target_count = 1;
    a.group_bytes = gb;
    a.cols = cols;
    a.x = b.x;
    a.x_row_bytes = unit == 1 ? 4 * cols : cols / 32 * 48;
    a.columns = tokens;
    a.jobs = 1;
    show(b.timer.us(n, [&](int i) {
      a.targets[0].weights = b.weights + bytes * i;
      dot(b.timer.stream, type, a);
    }), bytes);
  };
  const auto experts = [&](int active, int rows, int cols, int matrices) {
    const std::size_t gb = group_bytes(unit_bytes, unit, cols);
    const std::size_t bytes = gb * (rows / 16) * matrices;  // an expert
    const int count = static_cast<int>(std::min<std::size_t>(Bench::kMostJobs, Bench::kBytes / bytes)) / active * active;
    b.set_jobs(tokens, bytes, count);
    DotArgs a;
    for (int m = 0; m < matrices; ++m) {
      a.targets[m].offset = gb * (rows / 16) * m;
      a.targets[m].groups = rows / 16;
      a.targets[m].out = b.out;
      a.targets[m].out_width = rows;
    }
    a.target_count = matrices;
    a.group_bytes = gb;
    a.cols = cols;
    a.x = b.x;
    a.x_row_bytes = unit == 1 ? 4 * cols : cols / 32 * 48;
    a.jobs = active;
    a.tile = tokens;
    show(b.timer.us(std::min(100, count / active), [&](int i) {
      a.job = b.jobs + i * active;
      dot(b.timer.stream, type, a);
    }), static_cast<double>(bytes) * active);
  };
  dense(4096, 4096);
  dense(2048, 2048);
  experts(40, 768, 2048, 2);
  experts(40, 2048, 768, 1);
  experts(8, 768, 2048, 2);
  experts(8, 2048, 768, 1);
  std::printf("  %s\n", cudaGetErrorString(cudaGetLastError()));
  std::fflush(stdout);
}



template <class Format>
void format(Bench& b, gguf::Type type, const char* name, int unit) {
  for (const int tokens : {1, 2, 4, 8}) time_type(b, type, name, tokens, Format::kBytes, unit);
}

}  // namespace

void run_variants() {
  Bench b;
  time_attention(b);
  time_rows(b);
  std::printf("%-30s %18s %18s %18s %18s %18s %18s\n", "", "4096x4096", "2048x2048", "40 gate+up", "40 down", "8 gate+up", "8 down");
  using gguf::Type;
  format<Q4_0>(b, Type::kQ4_0, "Q4_0", 32);
  format<Q5_1>(b, Type::kQ5_1, "Q5_1", 32);
  format<Q8_0>(b, Type::kQ8_0, "Q8_0", 32);
  format<Q4_K>(b, Type::kQ4_K, "Q4_K", 256);
  format<Q5_K>(b, Type::kQ5_K, "Q5_K", 256);
  format<Q6_K>(b, Type::kQ6_K, "Q6_K", 256);
  for (const int tokens : {1, 2, 4, 8}) time_type(b, Type::kF32, "F32", tokens, 64, 1);
  for (const int tokens : {1, 2, 4, 8}) time_type(b, Type::kF16, "F16", tokens, 32, 1);
}

}  // namespace strata::cuda
