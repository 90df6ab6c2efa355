// Experts that an accelerator lacks, on their way to it while it computes: a prompt's window needs
// nearly all of a layer's, so the link is kept busy from layer to layer.
//
// Half of the staging slots of a layer are filled while the accelerator computes from the other
// half. At a layer's end the next one's likeliest experts are begun, which come while its attention
// is computed.
//
// Not thread-safe; the thread that makes the device's calls.
#pragma once

#include "strata/core/expert_cache.hpp"
#include "strata/device/device.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace strata::core {

class ExpertStream {
 public:
  // All must outlive this; the cache has staging slots, which nobody else takes.
  ExpertStream(ExpertCache& cache, device::Device& accelerator, device::Copier& copier);

  // Whether the expert is on its way, begun by look_ahead().
  [[nodiscard]] bool is_ahead(ExpertId id) const noexcept;
  // Begins what of `work` is not on its way yet, as far as there is room; compute() does the rest.
  void begin(int layer, std::span<const device::ExpertWork> work);
  // Computes all of it: Device::experts().
  void compute(device::Rows x, const quant::ExpertLayout& layout, device::Rows parts);
  // Begins the experts of `layer` that are not resident and have been used most: `uses` by expert.
  void look_ahead(int layer, std::span<const std::uint64_t> uses);
  // What is on its way is not wanted: it has arrived before any later call.
  void forget();

 private:
  struct Batch {
    int note = 0;                                                    // which of the copier's
    std::vector<std::pair<std::int32_t, const std::byte*>> experts;  // and where they are
  };
  [[nodiscard]] int room(int layer) const noexcept {
    return std::max(cache_.staging(layer) / 2, 1);
  }
  // Batches that are on their way at once.
  [[nodiscard]] std::size_t halves(int layer) const noexcept {
    return cache_.staging(layer) > 1 ? 2 : 1;
  }
  // Begins to fill up to room() slots with `experts`; returns how many it took.
  std::size_t fill(int layer, std::span<const std::int32_t> experts);
  // The first on its way is done with.
  void retire();
  void compute_batch(const Batch& batch, device::Rows x, const quant::ExpertLayout& layout,
                     device::Rows parts);

  ExpertCache& cache_;
  device::Device& accelerator_;
  device::Copier& copier_;
  int layer_ = -1;
  int next_note_ = 0;
  std::vector<Batch> on_way_;             // two at most
  std::vector<Batch> spare_;              // their lists are used again
  std::vector<std::int32_t> waiting_;     // not begun
  std::vector<device::ExpertWork> work_;  // of the layer, by expert
  std::vector<device::ExpertWork> staged_;
};

}  // namespace strata::core
