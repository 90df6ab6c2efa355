#include "strata/core/dispatch.hpp"

#include <algorithm>

namespace strata::core {

DispatchPlan ExpertDispatch::plan(const ExpertStore& store, int layer,
                                  std::span<const std::int32_t> ids, int used,
                                  const ExpertCache* cache) {
  std::ranges::fill(counts_, 0);
  for (const std::int32_t e : ids) ++counts_[static_cast<std::size_t>(e)];
  tokens_.resize(ids.size());
  rows_.resize(ids.size());
  hits_.clear();
  misses_.clear();
  std::int32_t start = 0;
  for (std::size_t e = 0; e < counts_.size(); ++e) {
    const std::int32_t n = counts_[e];
    counts_[e] = start;
    if (n == 0) continue;
    const auto from = static_cast<std::size_t>(start);
    const auto size = static_cast<std::size_t>(n);
    const int expert = static_cast<int>(e);
    const std::int32_t slot = cache == nullptr ? kNotResident : cache->slot_of({layer, expert});
    const std::byte* blob = slot == kNotResident ? store.blob(layer, expert) : cache->blob(slot);
    (slot == kNotResident ? misses_ : hits_)
        .push_back({blob, std::span(tokens_).subspan(from, size),
                    std::span(rows_).subspan(from, size), static_cast<std::int32_t>(e)});
    start += n;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto at = static_cast<std::size_t>(counts_[static_cast<std::size_t>(ids[i])]++);
    tokens_[at] = static_cast<std::int32_t>(i) / used;
    rows_[at] = static_cast<std::int32_t>(i);
  }
  return {hits_, misses_};
}

}  // namespace strata::core
