// From the router's choice to work for the tiers: the window's tokens grouped by expert.
#pragma once

#include "strata/core/expert_cache.hpp"
#include "strata/core/expert_store.hpp"
#include "strata/device/expert_work.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace strata::core {

// The window's work of one layer. Items come in order of expert id, the tokens of each in order.
struct DispatchPlan {
  std::span<const device::ExpertWork> hits;    // blobs in the arena
  std::span<const device::ExpertWork> misses;  // blobs in the store
};

// Reused from layer to layer: no allocation on the token path once it has seen the largest window.
class ExpertDispatch {
 public:
  explicit ExpertDispatch(int experts) : counts_(static_cast<std::size_t>(experts)) {}

  // ids: [tokens][used], each token's experts distinct. The result lives until the next call. Parts
  // row of (token, rank) is token * used + rank.
  [[nodiscard]] std::span<const device::ExpertWork> plan(const ExpertStore& store, int layer,
                                                         std::span<const std::int32_t> ids,
                                                         int used) {
    return plan(store, layer, ids, used, nullptr).misses;
  }
  // With `cache`, experts that are resident become hits.
  [[nodiscard]] DispatchPlan plan(const ExpertStore& store, int layer,
                                  std::span<const std::int32_t> ids, int used,
                                  const ExpertCache* cache);

 private:
  std::vector<std::int32_t> counts_;  // tokens of each expert, then where its next token goes
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> rows_;
  std::vector<device::ExpertWork> hits_;
  std::vector<device::ExpertWork> misses_;
};

}  // namespace strata::core
