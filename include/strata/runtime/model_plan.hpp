// What a model will take of memory, from its file's header alone.
#pragma once

#include "strata/core/planner.hpp"
#include "strata/device/device.hpp"
#include "strata/gguf/file.hpp"
#include "strata/model/hparams.hpp"
#include "strata/model/tensors.hpp"
#include "strata/runtime/cache_options.hpp"

namespace strata::runtime {

struct ModelSizing {
  int context = 0;
  int window = 512;
  device::KvType kv = device::KvType::kF16;
};

// The planner's input but for the memory there is: accelerator, accelerator_bytes and ram_bytes
// are the caller's to set.
[[nodiscard]] core::PlanInput plan_input(const model::HParams& h,
                                         const model::ModelTensors& tensors,
                                         const ModelSizing& sizing, const CacheOptions& cache);

// An accelerator is used only for a cache.
[[nodiscard]] inline core::AcceleratorKind accelerator_of(const CacheOptions& cache) noexcept {
  return cache.size.kind == core::CacheRequest::Kind::kNone ? core::AcceleratorKind::kNone
                                                            : core::AcceleratorKind::kStandIn;
}

}  // namespace strata::runtime
