// All routed experts of a model as packed blobs: the tier that has everything. They lie in owned
// memory, or for models larger than that in a file that the system pages.
#pragma once

#include "strata/base/memory.hpp"
#include "strata/base/thread_pool.hpp"
#include "strata/gguf/file.hpp"
#include "strata/model/tensors.hpp"
#include "strata/quant/expert_blob.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace strata::core {

// Called from the loading thread with what is being done and how much of it, 0 to 1.
using Progress = std::function<void(std::string_view stage, double fraction)>;

class ExpertStore {
 public:
  // Packs the experts of every layer in parallel. Pages of the file are released as soon as they
  // are packed, so that memory grows by the blobs alone. `folder`: where given, the blobs lie in a
  // nameless file there. Error(kResource) when memory or disk is refused.
  [[nodiscard]] static ExpertStore load(const gguf::File& file, const model::ModelTensors& tensors,
                                        const model::HParams& h, ThreadPool& pool,
                                        const Progress& progress,
                                        const std::filesystem::path& folder = {});

  [[nodiscard]] const quant::ExpertLayout& layout(int layer) const noexcept {
    return layouts_[index(layer)];
  }
  [[nodiscard]] const std::byte* blob(int layer, int expert) const noexcept {
    return blobs_[index(layer)].data() + strides_[index(layer)] * static_cast<std::size_t>(expert);
  }
  // Of a layer, in one piece.
  [[nodiscard]] std::span<const std::byte> bytes(int layer) const noexcept {
    return blobs_[index(layer)].bytes();
  }
  [[nodiscard]] std::size_t total_bytes() const noexcept;

 private:
  static std::size_t index(int layer) noexcept { return static_cast<std::size_t>(layer); }

  std::vector<quant::ExpertLayout> layouts_;  // one a layer
  std::vector<std::size_t> strides_;          // bytes from one expert to the next, 64-byte aligned
  std::vector<Buffer> blobs_;                 // [experts] a layer
};

// Packs a matrix of the file to `dst`, quant::packed_bytes of it, spread over the pool; releases
// its mapped pages as they are done.
void pack_matrix(const gguf::File& file, const gguf::TensorInfo& tensor, ThreadPool& pool,
                 std::byte* dst);

}  // namespace strata::core
