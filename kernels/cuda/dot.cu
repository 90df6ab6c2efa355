#include "kernels/cuda/dot.cuh"

namespace strata::cuda {
namespace {

std::int64_t target_groups(const DotArgs& args) {
  std::int64_t groups = 0;
  for (int i = 0; i < args.target_count; ++i) groups += args.targets[i].groups;
  return groups;
}
// Of all jobs.
std::int64_t groups_of(const DotArgs& args) { return args.jobs * target_groups(args); }

template <class Kernel>
void launch_groups(Stream stream, const DotArgs& args, int groups_a_block) {
  launch(stream, args.jobs * ceil_div(target_groups(args), groups_a_block), Kernel{args});
}

void set_jobs(DotArgs& args) {
  if (args.job != nullptr) return;
  args.tile = args.columns < kMaxDotTokens ? args.columns : kMaxDotTokens;
  args.tile = args.tile > 4 ? 8 : args.tile > 2 ? 4 : args.tile;
  args.jobs = args.tile == 0 ? 0 : static_cast<std::int32_t>(ceil_div(args.columns, args.tile));
}

// From so many groups on there is enough to read at a time without a thread a row.
constexpr std::int64_t kManyGroups = 512;

template <class Format, int kTokens>
void launch_rows(Stream stream, const DotArgs& args) {
  if (groups_of(args) < kManyGroups) {
    launch_groups<DotKernel<Format, kTokens, 1, 4, 4>>(stream, args, 1);
  } else {
    launch_groups<DotKernel<Format, kTokens, 2, 2,
                            kTokens == 1   ? 6
                            : kTokens == 2 ? 5
                                           : 4>>(stream, args, 2);
  }
}

template <class Format>
void launch_quantized(Stream stream, DotArgs args) {
  set_jobs(args);
  if (args.tile == 1) return launch_rows<Format, 1>(stream, args);
  if (args.tile == 2) return launch_rows<Format, 2>(stream, args);
  if (groups_of(args) < kManyGroups) {
    launch_groups<DotEightKernel<Format, 1, 4, 2>>(stream, args, 1);
  } else if (args.tile == 4) {
    launch_rows<Format, 4>(stream, args);
  } else {
    launch_groups<DotEightKernel<Format, 2, 1, 3>>(stream, args, 2);
  }
}
template <class Format>
void launch_float(Stream stream, DotArgs args) {
  set_jobs(args);
  if (args.tile > 4) {
    launch_groups<FloatDotKernel<Format, 8, 32>>(stream, args, 1);
  } else if (args.tile > 2) {
    launch_groups<FloatDotKernel<Format, 4, 32>>(stream, args, 1);
  } else if (args.tile == 2) {
    launch_groups<FloatDotKernel<Format, 2, 64>>(stream, args, 1);
  } else {
    launch_groups<FloatDotKernel<Format, 1, 64>>(stream, args, 1);
  }
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
