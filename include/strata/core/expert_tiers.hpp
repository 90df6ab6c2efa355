// Where a window's experts are computed: all on the pool's device, or hits on an accelerator from
// its arena and misses on the pool, side by side. Which of the two never shows in a bit of the
// result.
#pragma once

#include "strata/core/dispatch.hpp"
#include "strata/core/expert_cache.hpp"
#include "strata/core/handover.hpp"
#include "strata/device/device.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace strata::core {

// Counts of expert rows (a token's choice of one expert) and bytes of blobs, since the start.
struct TierCounts {
  std::uint64_t hit_rows = 0;
  std::uint64_t miss_rows = 0;
  std::uint64_t hit_bytes = 0;   // blobs read from the arena
  std::uint64_t miss_bytes = 0;  // blobs read from RAM
  [[nodiscard]] std::uint64_t rows() const noexcept { return hit_rows + miss_rows; }
};

class ExpertTiers {
 public:
  // No cache: every expert on `pool`. The store must outlive this, as must all that is given below.
  ExpertTiers(const ExpertStore& store, device::Device& pool, int layers, int experts);
  // With a cache in `accelerator`'s memory. `rows`: parts rows of the largest window. Starts the
  // pool's service thread; from then on the pool's device is used by that thread while a layer's
  // misses are out, and by the caller otherwise.
  void attach(ExpertCache& cache, device::Device& accelerator, int rows);
  ~ExpertTiers();
  ExpertTiers(const ExpertTiers&) = delete;
  ExpertTiers& operator=(const ExpertTiers&) = delete;

  // parts[token * used + rank] = expert ids[token][rank] of x[token], unweighted. Error(kInternal)
  // when the pool's side fails or falls silent. Returns the bytes of the blobs read.
  std::uint64_t compute(int layer, device::Rows x, std::span<const std::int32_t> ids, int used,
                        device::Rows parts);

  [[nodiscard]] const TierCounts& counts(int layer) const noexcept {
    return counts_[static_cast<std::size_t>(layer)];
  }

 private:
  void serve();

  const ExpertStore& store_;
  device::Device& pool_;
  ExpertDispatch dispatch_;
  std::vector<TierCounts> counts_;  // by layer
  ExpertCache* cache_ = nullptr;
  device::Device* accelerator_ = nullptr;
  std::unique_ptr<Handover> handover_;
  std::thread service_;
};

}  // namespace strata::core
