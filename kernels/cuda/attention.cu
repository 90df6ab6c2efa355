#include "kernels/cuda/attention.cuh"

namespace strata::cuda {

void attention(Stream stream, const AttentionArgs& args) {
  const int group = args.heads / args.kv_heads;
  const std::int64_t parts = ceil_div(group, kAttentionQueries);
  const std::int64_t chunks = args.chunks == 0 ? 1 : args.chunks;
  if (args.wide) {
    attention_prompt(stream, args);
  } else {
    launch(stream, chunks * args.tile_count * args.kv_heads * parts, AttentionKernel{args});
  }
  if (args.chunks != 0) {
    launch(stream, static_cast<std::int64_t>(args.rows) * args.heads, AttentionJoinKernel{args});
  }
}

}  // namespace strata::cuda
