#include "strata/core/expert_tiers.hpp"

#include "strata/base/clock.hpp"

#include <algorithm>
#include <cassert>
#include <exception>

namespace strata::core {

TierCounts& TierCounts::operator+=(const TierCounts& other) noexcept {
  hit_rows += other.hit_rows;
  miss_rows += other.miss_rows;
  hit_experts += other.hit_experts;
  miss_experts += other.miss_experts;
  hit_bytes += other.hit_bytes;
  miss_bytes += other.miss_bytes;
  hit_seconds += other.hit_seconds;
  miss_seconds += other.miss_seconds;
  return *this;
}

TierCounts TierCounts::operator-(const TierCounts& earlier) const noexcept {
  return {hit_rows - earlier.hit_rows,       miss_rows - earlier.miss_rows,
          hit_experts - earlier.hit_experts, miss_experts - earlier.miss_experts,
          hit_bytes - earlier.hit_bytes,     miss_bytes - earlier.miss_bytes,
          hit_seconds - earlier.hit_seconds, miss_seconds - earlier.miss_seconds};
}

TierCounts ExpertTiers::total() const noexcept {
  TierCounts sum;
  for (const TierCounts& layer : counts_) sum += layer;
  return sum;
}

ExpertTiers::ExpertTiers(const ExpertStore& store, device::Device& pool, int layers, int experts)
    : store_(store),
      pool_(pool),
      dispatch_(experts),
      counts_(static_cast<std::size_t>(layers)),
      uses_(static_cast<std::size_t>(layers) * static_cast<std::size_t>(experts)) {}

void ExpertTiers::set_home(device::Device& home, int tokens, int used, std::int64_t width) {
  if (home.is_host_memory()) return;
  home_ = &home;
  const std::size_t row = sizeof(float) * static_cast<std::size_t>(width);
  host_x_ = home.allocate_host(row * static_cast<std::size_t>(tokens));
  host_parts_ =
      home.allocate_host(row * static_cast<std::size_t>(tokens) * static_cast<std::size_t>(used));
  rows_.reserve(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(used));
}

device::Rows ExpertTiers::to_pool(device::Rows x) {
  if (home_ == nullptr) return x;
  const std::size_t bytes =
      sizeof(float) * static_cast<std::size_t>(x.count) * static_cast<std::size_t>(x.width);
  assert(bytes <= host_x_->size());
  home_->copy_to_host(host_x_->data(), reinterpret_cast<const std::byte*>(x.data), bytes);
  return {reinterpret_cast<float*>(host_x_->data()), x.count, x.width};
}

device::Rows ExpertTiers::pool_parts(device::Rows parts) noexcept {
  if (home_ == nullptr) return parts;
  return {reinterpret_cast<float*>(host_parts_->data()), parts.count, parts.width};
}

void ExpertTiers::from_pool(std::span<const device::ExpertWork> misses, device::Rows parts) {
  if (home_ == nullptr) return;
  rows_.clear();
  for (const device::ExpertWork& w : misses)
    rows_.insert(rows_.end(), w.rows.begin(), w.rows.end());
  std::ranges::sort(rows_);
  const device::Rows host = pool_parts(parts);
  // Neighbours in one copy: a prompt whose experts all missed is a single one. The pool writes to
  // these rows again only after the next layer's x has been copied to it.
  for (std::size_t first = 0; first < rows_.size();) {
    std::size_t last = first + 1;
    while (last < rows_.size() && rows_[last] == rows_[last - 1] + 1) ++last;
    home_->copy_from_host_later(
        reinterpret_cast<std::byte*>(parts.row(rows_[first])),
        reinterpret_cast<const std::byte*>(host.row(rows_[first])),
        sizeof(float) * (last - first) * static_cast<std::size_t>(parts.width));
    first = last;
  }
}

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
    const Stopwatch watch;
    try {
      pool_.experts(request.x, store_.layout(request.layer), request.misses, request.parts);
    } catch (const std::exception& e) {
      handover_->fail_with(e.what());
      return;
    }
    for (const device::ExpertWork& w : request.misses) {
      for (const std::int32_t row : w.rows) handover_->stamp(row, step);
    }
    served_seconds_ = watch.seconds();
    handover_->reply(step);
  }
}

std::uint64_t ExpertTiers::compute(int layer, device::Rows x, std::span<const std::int32_t> ids,
                                   int used, device::Rows parts) {
  const quant::ExpertLayout& layout = store_.layout(layer);
  const DispatchPlan plan = dispatch_.plan(store_, layer, ids, used, cache_);
  TierCounts& counts = counts_[static_cast<std::size_t>(layer)];
  const Stopwatch watch;
  if (plan.hits.empty()) {
    // Nothing to do beside it: the caller works with the pool itself. Its service is asleep.
    pool_.experts(to_pool(x), layout, plan.misses, pool_parts(parts));
    from_pool(plan.misses, parts);
    counts.miss_seconds += watch.seconds();
  } else if (plan.misses.empty()) {
    accelerator_->experts(x, layout, plan.hits, parts);
    counts.hit_seconds += watch.seconds();
  } else {
    const std::uint64_t step = handover_->post({layer, to_pool(x), plan.misses, pool_parts(parts)});
    accelerator_->experts(x, layout, plan.hits, parts);
    counts.hit_seconds += watch.seconds();
    handover_->wait(step);
    counts.miss_seconds += served_seconds_;
    from_pool(plan.misses, parts);
  }
  const std::size_t experts = uses_.size() / counts_.size();
  for (const std::int32_t id : ids)
    ++uses_[static_cast<std::size_t>(layer) * experts + static_cast<std::size_t>(id)];
  for (const device::ExpertWork& w : plan.hits) counts.hit_rows += w.rows.size();
  for (const device::ExpertWork& w : plan.misses) counts.miss_rows += w.rows.size();
  counts.hit_experts += plan.hits.size();
  counts.miss_experts += plan.misses.size();
  counts.hit_bytes += plan.hits.size() * layout.bytes();
  counts.miss_bytes += plan.misses.size() * layout.bytes();
  return (plan.hits.size() + plan.misses.size()) * layout.bytes();
}

}  // namespace strata::core
