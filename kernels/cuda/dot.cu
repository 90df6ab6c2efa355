#include "kernels/cuda/dot.cuh"

namespace strata::cuda {
namespace {

template <class Dot, int kTokens>
void launch_tile(Stream stream, const DotArgs& args, std::int64_t groups) {
  launch(stream, args.jobs * groups, DotKernel<Dot, kTokens>{args});
}

// The narrowest tile that holds every job.
template <class Dot>
void launch_dot(Stream stream, DotArgs args) {
  if (args.job == nullptr) {
    args.tile = args.columns < kMaxDotTokens ? args.columns : kMaxDotTokens;
  }
  const int tile = args.tile > 4 ? 8 : args.tile > 2 ? 4 : args.tile;
  if (args.job == nullptr) {
    args.jobs = tile == 0 ? 0 : static_cast<std::int32_t>(ceil_div(args.columns, tile));
  }
  std::int64_t groups = 0;
  for (int i = 0; i < args.target_count; ++i) groups += args.targets[i].groups;
  switch (tile) {
    case 0:
      return;
    case 1:
      return launch_tile<Dot, 1>(stream, args, groups);
    case 2:
      return launch_tile<Dot, 2>(stream, args, groups);
    case 4:
      return launch_tile<Dot, 4>(stream, args, groups);
    default:
      return launch_tile<Dot, 8>(stream, args, groups);
  }
}

}  // namespace

void dot(Stream stream, gguf::Type type, DotArgs args) {
  using gguf::Type;
  switch (type) {
    case Type::kF32:
      return launch_dot<FloatDot<F32>>(stream, args);
    case Type::kF16:
      return launch_dot<FloatDot<F16>>(stream, args);
    case Type::kBF16:
      return launch_dot<FloatDot<BF16>>(stream, args);
    case Type::kQ4_0:
      return launch_dot<QuantizedDot<Q4_0>>(stream, args);
    case Type::kQ4_1:
      return launch_dot<QuantizedDot<Q4_1>>(stream, args);
    case Type::kQ5_0:
      return launch_dot<QuantizedDot<Q5_0>>(stream, args);
    case Type::kQ5_1:
      return launch_dot<QuantizedDot<Q5_1>>(stream, args);
    case Type::kQ8_0:
      return launch_dot<QuantizedDot<Q8_0>>(stream, args);
    case Type::kQ4_K:
      return launch_dot<QuantizedDot<Q4_K>>(stream, args);
    case Type::kQ5_K:
      return launch_dot<QuantizedDot<Q5_K>>(stream, args);
    case Type::kQ6_K:
      return launch_dot<QuantizedDot<Q6_K>>(stream, args);
    default:
      refuse("dot", "weights of type", static_cast<int>(type));
  }
}

}  // namespace strata::cuda
