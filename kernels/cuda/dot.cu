#include "kernels/cuda/dot.cuh"

namespace strata::cuda {
namespace {

template <class Kernel>
void launch_groups(Stream stream, const DotArgs& args) {
  std::int64_t groups = 0;
  for (int i = 0; i < args.target_count; ++i) groups += args.targets[i].groups;
  launch(stream, args.jobs * groups, Kernel{args});
}

// One: the kernel of one token; Many: of up to kMaxDotTokens.
template <class One, class Many>
void launch_dot(Stream stream, DotArgs args) {
  if (args.job == nullptr) {
    args.tile = args.columns == 1 ? 1 : kMaxDotTokens;
    args.jobs = static_cast<std::int32_t>(ceil_div(args.columns, args.tile));
  }
  if (args.tile == 1) {
    launch_groups<One>(stream, args);
  } else {
    launch_groups<Many>(stream, args);
  }
}

template <class Format>
void launch_quantized(Stream stream, const DotArgs& args) {
  launch_dot<DotKernel<Format, 1, 8, 8, 2>, DotKernel<Format, 8, 4, 8, 2>>(stream, args);
}
template <class Format>
void launch_float(Stream stream, const DotArgs& args) {
  launch_dot<FloatDotKernel<Format, 1, 64>, FloatDotKernel<Format, 8, 32>>(stream, args);
}

}  // namespace

void dot(Stream stream, gguf::Type type, DotArgs args) {
  using gguf::Type;
  switch (type) {
    case Type::kF32:
      return launch_float<F32>(stream, args);
    case Type::kF16:
      return launch_float<F16>(stream, args);
    case Type::kBF16:
      return launch_float<BF16>(stream, args);
    case Type::kQ4_0:
      return launch_quantized<Q4_0>(stream, args);
    case Type::kQ4_1:
      return launch_quantized<Q4_1>(stream, args);
    case Type::kQ5_0:
      return launch_quantized<Q5_0>(stream, args);
    case Type::kQ5_1:
      return launch_quantized<Q5_1>(stream, args);
    case Type::kQ8_0:
      return launch_quantized<Q8_0>(stream, args);
    case Type::kQ4_K:
      return launch_quantized<Q4_K>(stream, args);
    case Type::kQ5_K:
      return launch_quantized<Q5_K>(stream, args);
    case Type::kQ6_K:
      return launch_quantized<Q6_K>(stream, args);
    default:
      refuse("dot", "weights of type", static_cast<int>(type));
  }
}

}  // namespace strata::cuda
