#include "kernels/cuda/quantize.cuh"

#include "kernels/cuda/kernels.hpp"

namespace strata::cuda {
namespace {

template <class Source>
void launch_quantize(Stream stream, const Source& source, std::int64_t blocks, std::byte* panels) {
  using Kernel = QuantizeKernel<Source>;
  launch(stream, ceil_div(blocks, Kernel::kBlocks), Kernel{source, blocks, panels});
}

}  // namespace

void quantize(Stream stream, const float* x, std::int64_t blocks, std::byte* panels) {
  launch_quantize(stream, PlainSource{x}, blocks, panels);
}

void swiglu_quantize(Stream stream, const float* gate, const float* up, std::int64_t blocks,
                     std::byte* panels) {
  launch_quantize(stream, SwigluSource{{gate}, {up}}, blocks, panels);
}

void swiglu(Stream stream, const float* gate, const float* up, std::int64_t blocks, float* hidden) {
  launch(stream, ceil_div(8 * blocks, SwigluKernel::kThreads),
         SwigluKernel{{{gate}, {up}}, 8 * blocks, hidden});
}

}  // namespace strata::cuda
