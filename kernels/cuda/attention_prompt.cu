#include "kernels/cuda/attention_prompt.cuh"

namespace strata::cuda {
namespace {

template <int kDims>
void launch_prompt(Stream stream, const AttentionArgs& args) {
  using Kernel = AttentionPromptKernel<kDims>;
  const std::int64_t parts = ceil_div(args.heads / args.kv_heads, Kernel::kQueries);
  const std::int64_t chunks = args.chunks == 0 ? 1 : args.chunks;
  launch(stream, chunks * args.tile_count * args.kv_heads * parts, Kernel{args});
}

}  // namespace

void attention_prompt(Stream stream, const AttentionArgs& args) {
  if (args.head_dim <= 64) return launch_prompt<64>(stream, args);
  if (args.head_dim <= 128) return launch_prompt<128>(stream, args);
  launch_prompt<256>(stream, args);
}

}  // namespace strata::cuda
