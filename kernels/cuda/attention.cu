#include "kernels/cuda/attention.cuh"

namespace strata::cuda {
namespace {

std::int64_t blocks_of(const AttentionArgs& args, int queries) {
  const int group = args.heads / args.kv_heads;
  const std::int64_t rows = kAttentionQueries / group > 1 ? kAttentionQueries / group : 1;
  return (args.chunks == 0 ? 1 : args.chunks) * args.tile_count * args.kv_heads *
         ceil_div(rows * group, queries);
}

template <int kQueries>
void launch_queries(Stream stream, const AttentionArgs& args) {
  launch(stream, blocks_of(args, kQueries), AttentionKernel<kQueries>{args});
}

}  // namespace

// Few queries a block as long as that gives more multiprocessors something to do; many share what
// they read.
void attention(Stream stream, const AttentionArgs& args) {
  constexpr std::int64_t kMostBlocks = 160;
  if (args.wide) {
    attention_prompt(stream, args);
  } else if (blocks_of(args, 1) <= kMostBlocks) {
    launch_queries<1>(stream, args);
  } else if (blocks_of(args, 4) <= kMostBlocks) {
    launch_queries<4>(stream, args);
  } else {
    launch_queries<8>(stream, args);
  }
  if (args.chunks > 1) {
    launch(stream, static_cast<std::int64_t>(args.rows) * args.heads, AttentionJoinKernel{args});
  }
}

}  // namespace strata::cuda
