// A model's weights where they are computed with: dense ones on a device, experts in the store.
#pragma once

#include "strata/core/expert_store.hpp"
#include "strata/device/device.hpp"
#include "strata/gguf/file.hpp"
#include "strata/model/hparams.hpp"

#include <filesystem>
#include <memory>
#include <vector>

namespace strata::runtime {

// A small f32 vector on the device.
struct Vector {
  std::unique_ptr<device::Memory> memory;
  [[nodiscard]] const float* data() const noexcept {
    return reinterpret_cast<const float*>(memory->data());
  }
};

struct Layer {
  Vector attn_norm, ffn_norm;
  Vector q_norm, k_norm;  // empty without qk-norm
  device::Linear q, k, v, output, router;
};

// Immutable once loaded: any number of forward passes, one at a time a device, may share it.
struct Model {
  model::HParams h;
  device::Linear token_embd;
  device::Linear head;  // shares token_embd's memory when tied
  Vector output_norm;
  std::vector<Layer> layers;
  core::ExpertStore experts;
  std::unique_ptr<device::Memory> rope_table;  // [context][n_rot]: n_rot/2 cosines, then sines
  int context = 0;                             // positions the table covers

  [[nodiscard]] std::size_t dense_bytes() const noexcept;
};

// Error(kInput) for a file we cannot run, Error(kResource) when memory is short. Nothing of the
// file is needed after. `expert_folder`: see core::ExpertStore::load.
[[nodiscard]] Model load_model(const gguf::File& file, int context, device::Device& device,
                               ThreadPool& pool, const core::Progress& progress,
                               const std::filesystem::path& expert_folder = {});

}  // namespace strata::runtime
