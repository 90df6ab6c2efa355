// Where a row's keys and values lie at a layer.
#pragma once

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/simt.cuh"

namespace strata::cuda {

STRATA_DEVICE Place at_layer(Place p, int layer) {
  const std::uint64_t offset = static_cast<std::uint64_t>(layer) * p.layer_bytes;
  p.keys += offset;
  p.values += offset;
  return p;
}

}  // namespace strata::cuda
