#include "kernels/cuda/router.cuh"

namespace strata::cuda {

void route(Stream stream, const RouteArgs& args) {
  if (args.experts > kMaxExperts) refuse(RouteKernel::kName, "so many experts:", args.experts);
  launch(stream, args.rows, RouteKernel{args});
}

}  // namespace strata::cuda
