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

// What the request comes to on a machine with or without a GPU. Error(kUsage) where a flag was
// given that does nothing then.
[[nodiscard]] CacheOptions resolve(CacheOptions cache, bool gpu);

// Without a GPU an accelerator is there only for a cache. `cache` is resolved.
[[nodiscard]] core::AcceleratorKind accelerator_of(const CacheOptions& cache, bool gpu) noexcept;

}  // namespace strata::runtime
