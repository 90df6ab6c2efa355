#include "kernels/cuda/rows.cuh"

namespace strata::cuda {
namespace {

template <class Pieces>
void launch_embed(Stream stream, const EmbedArgs& args) {
  using Kernel = EmbedKernel<Pieces>;
  launch(stream, ceil_div(args.cols / Pieces::kElems * args.count, Kernel::kThreads), Kernel{args});
}

}  // namespace

void embed(Stream stream, gguf::Type type, const EmbedArgs& args) {
  using gguf::Type;
  switch (type) {
    case Type::kF32:
      return launch_embed<EmbedFloats<F32>>(stream, args);
    case Type::kF16:
      return launch_embed<EmbedFloats<F16>>(stream, args);
    case Type::kBF16:
      return launch_embed<EmbedFloats<BF16>>(stream, args);
    case Type::kQ4_0:
      return launch_embed<EmbedBlocks<Q4_0>>(stream, args);
    case Type::kQ4_1:
      return launch_embed<EmbedBlocks<Q4_1>>(stream, args);
    case Type::kQ5_0:
      return launch_embed<EmbedBlocks<Q5_0>>(stream, args);
    case Type::kQ5_1:
      return launch_embed<EmbedBlocks<Q5_1>>(stream, args);
    case Type::kQ8_0:
      return launch_embed<EmbedBlocks<Q8_0>>(stream, args);
    case Type::kQ4_K:
      return launch_embed<EmbedBlocks<Q4_K>>(stream, args);
    case Type::kQ5_K:
      return launch_embed<EmbedBlocks<Q5_K>>(stream, args);
    case Type::kQ6_K:
      return launch_embed<EmbedBlocks<Q6_K>>(stream, args);
    default:
      refuse("embed", "weights of type", static_cast<int>(type));
  }
}

void rms_norm(Stream stream, const float* x, const float* weight, std::int64_t width, int rows,
              float eps, float* y) {
  rms_norm(stream, {.x = x, .width = width, .rows = rows, .weight = weight, .eps = eps, .y = y});
}

void rms_norm(Stream stream, const NormArgs& args) {
  using Narrow = RmsNormNarrowKernel;
  if (args.width <= Narrow::kWidth && args.panels == nullptr) {
    launch(stream, ceil_div(args.rows, Narrow::kRows),
           Narrow{args.x, args.weight, static_cast<int>(args.width), args.rows, args.eps, args.y});
  } else {
    launch(stream, args.rows, NormKernel{args});
  }
}

void keep_rows(Stream stream, float* x, std::int64_t width, const std::int32_t* kept, int count) {
  launch(stream, ceil_div(width, KeepRowsKernel::kThreads), KeepRowsKernel{x, width, kept, count});
}

void combine(Stream stream, const float* parts, const float* weights, int ranks, std::int64_t width,
             int rows, float* x) {
  launch(stream, ceil_div(rows * width, CombineKernel::kThreads),
         CombineKernel{parts, weights, ranks, width, rows, x});
}

}  // namespace strata::cuda
