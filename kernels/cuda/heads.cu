#include "kernels/cuda/heads.cuh"

namespace strata::cuda {

void rope(Stream stream, const RopeArgs& args) {
  const std::int64_t pairs = static_cast<std::int64_t>(args.rows) * args.heads * (args.n_rot / 2);
  launch(stream, ceil_div(pairs, RopeKernel::kThreads), RopeKernel{args});
}

void kv_append(Stream stream, const float* k, const float* v, const Place* places, int layer,
               int rows, int kv_heads, int head_dim) {
  const std::int64_t cells = static_cast<std::int64_t>(rows) * kv_heads * head_dim;
  launch(stream, ceil_div(cells, KvAppendKernel::kThreads),
         KvAppendKernel{k, v, places, layer, rows, kv_heads, head_dim});
}

void heads(Stream stream, const HeadsArgs& args) {
  if (args.head_dim > kMostHeadDim) refuse(HeadsKernel::kName, "a head dimension", args.head_dim);
  launch(stream, static_cast<std::int64_t>(args.rows) * (args.heads + args.kv_heads),
         HeadsKernel{args});
}

}  // namespace strata::cuda
