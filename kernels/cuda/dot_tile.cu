#include "kernels/cuda/dot_tile.cuh"

namespace strata::cuda {
namespace {

template <class Format>
void launch_tiles(Stream stream, DotArgs args) {
  using Kernel = DotTileKernel<Format, 4, 2, 3>;
  if (args.job == nullptr)
    args.jobs = static_cast<std::int32_t>(ceil_div(args.columns, kTileTokens));
  std::int64_t groups = 0;
  for (int i = 0; i < args.target_count; ++i) groups += args.targets[i].groups;
  launch(stream, args.jobs * ceil_div(groups, Kernel::kGroups),
         Kernel{args, static_cast<std::int64_t>(args.group_bytes) / (args.cols / 32)});
}

}  // namespace

void dot_tiles(Stream stream, gguf::Type type, const DotArgs& args) {
  using gguf::Type;
  switch (type) {
    case Type::kQ4_0:
      return launch_tiles<Q4_0>(stream, args);
    case Type::kQ4_1:
      return launch_tiles<Q4_1>(stream, args);
    case Type::kQ5_0:
      return launch_tiles<Q5_0>(stream, args);
    case Type::kQ5_1:
      return launch_tiles<Q5_1>(stream, args);
    case Type::kQ8_0:
      return launch_tiles<Q8_0>(stream, args);
    case Type::kQ4_K:
      return launch_tiles<Q4_K>(stream, args);
    case Type::kQ5_K:
      return launch_tiles<Q5_K>(stream, args);
    case Type::kQ6_K:
      return launch_tiles<Q6_K>(stream, args);
    default:
      refuse("dot_tile", "weights of type", static_cast<int>(type));
  }
}

}  // namespace strata::cuda
