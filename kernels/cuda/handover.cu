#include "kernels/cuda/handover.cuh"

namespace strata::cuda {

void dispatch(Stream stream, const DispatchArgs& args) {
  if (args.rows * args.used > kMaxChoices) {
    refuse("dispatch", "choices of a window,", args.rows * args.used);
  }
  launch(stream, 1, DispatchKernel{args});
}

void combine_held(Stream stream, const CombineHeldArgs& args) {
  launch(stream, args.rows, CombineHeldKernel{args});
}

}  // namespace strata::cuda
