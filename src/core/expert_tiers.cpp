#include "strata/core/expert_tiers.hpp"

#include <cassert>
#include <exception>

namespace strata::core {

ExpertTiers::ExpertTiers(const ExpertStore& store, device::Device& pool, int layers, int experts)
    : store_(store), pool_(pool), dispatch_(experts), counts_(static_cast<std::size_t>(layers)) {}

void ExpertTiers::attach(ExpertCache& cache, device::Device& accelerator, int rows) {
  assert(cache_ == nullptr);
  cache_ = &cache;
  accelerator_ = &accelerator;
  handover_ = std::make_unique<Handover>(rows);
  service_ = std::thread([this] { serve(); });
}

ExpertTiers::~ExpertTiers() {
  if (!service_.joinable()) return;
  handover_->shutdown();
  service_.join();
}

void ExpertTiers::serve() {
  HandoverRequest request;
  std::uint64_t step = 0;
  while (handover_->next(request, step)) {
    try {
      pool_.experts(request.x, store_.layout(request.layer), request.misses, request.parts);
    } catch (const std::exception& e) {
      handover_->fail_with(e.what());
      return;
    }
    for (const device::ExpertWork& w : request.misses) {
      for (const std::int32_t row : w.rows) handover_->stamp(row, step);
    }
    handover_->reply(step);
  }
}

std::uint64_t ExpertTiers::compute(int layer, device::Rows x, std::span<const std::int32_t> ids,
                                   int used, device::Rows parts) {
  const quant::ExpertLayout& layout = store_.layout(layer);
  const DispatchPlan plan = dispatch_.plan(store_, layer, ids, used, cache_);
  if (cache_ == nullptr) {
    pool_.experts(x, layout, plan.misses, parts);
  } else {
    const std::uint64_t step = handover_->post({layer, x, plan.misses, parts});
    accelerator_->experts(x, layout, plan.hits, parts);
    handover_->wait(step);
  }
  TierCounts& counts = counts_[static_cast<std::size_t>(layer)];
  for (const device::ExpertWork& w : plan.hits) counts.hit_rows += w.rows.size();
  for (const device::ExpertWork& w : plan.misses) counts.miss_rows += w.rows.size();
  counts.hit_bytes += plan.hits.size() * layout.bytes();
  counts.miss_bytes += plan.misses.size() * layout.bytes();
  return (plan.hits.size() + plan.misses.size()) * layout.bytes();
}

}  // namespace strata::core
