// Temporary: times the candidates of a kernel in graphs.
#include "bench/cuda/variants_dot.hpp"

namespace strata::cuda {

void run_attention(Bench& b);
void run_more(Bench& b);

void time_rows(Bench& b) {
  const auto show = [&](const char* what, const auto& call) {
    std::printf("%-30s %6.2f us\n", what, b.timer.us(100, call));
  };
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
    heads(s, {.q = x,
              .k = x + 65536,
              .v = x + 65536,
              .q_norm = x,
              .k_norm = x,
              .eps = 1e-6f,
              .places = place,
              .rows = 1,
              .heads = 32,
              .kv_heads = 4,
              .head_dim = 128,
              .table = x + 131072,
              .n_rot = 128,
              .neox = true});
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
  show("swiglu_quantize 8 x 768",
       [&](int) { swiglu_quantize(s, x, x + 65536, 8 * 24, b.x + (8 << 20)); });
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

void run_variants() {
  Bench b;
  run_attention(b);
  time_rows(b);
  std::printf("%-30s %18s %18s %18s %18s %18s %18s\n", "", "4096x4096", "2048x2048", "40 gate+up",
              "40 down", "8 gate+up", "8 down");
  for (const int blocks : {1, 128, 256, 1024, 5120}) {
    std::printf(
        "empty, %d blocks: %.2f us, early %.2f us\n", blocks,
        b.timer.us(100, [&](int) { launch(b.timer.stream, blocks, Empty{b.out}); }),
        b.timer.us(100, [&](int) { launch_early<1>(b.timer.stream, blocks, Empty{b.out}); }));
  }
  format<Q4_0>(b, "Q4_0", 32);
  format<Q4_K>(b, "Q4_K", 256);
  run_more(b);
}

}  // namespace strata::cuda
