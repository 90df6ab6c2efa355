// How a running cache compares with the best that any cache of its size could do: keeps the
// router's choices of the first tokens and replays them through the offline optimum.
#pragma once

#include "strata/core/expert_cache.hpp"
#include "strata/core/window_routing.hpp"

#include <cstdint>
#include <vector>

namespace strata::core {

// Not thread-safe. add() does not allocate.
class OptimumRecord {
 public:
  // Room for `max_tokens` tokens, 2 bytes a pick; later ones are not kept.
  OptimumRecord(ExpertGeometry geometry, int used, std::int64_t max_tokens);

  // Before anything changes after the window: hits are what `cache` holds now.
  void add(const WindowRouting& routing, const ExpertCache& cache) noexcept;

  struct Result {
    std::int64_t tokens = 0;
    double hit_rate = 0;  // the cache's over these tokens
    double optimum = 0;   // Belady's with the same slots a layer, from an empty start
  };
  [[nodiscard]] Result compare(const ExpertCache& cache) const;

 private:
  ExpertGeometry geometry_;
  int used_;
  std::int64_t max_tokens_;
  std::int64_t tokens_ = 0;
  std::int64_t picks_ = 0, hits_ = 0;
  std::vector<std::uint16_t> ids_;  // [tokens][layers][used], kMissing for a row never computed
};

}  // namespace strata::core
