#include "strata/core/quota.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <queue>

namespace strata::core {
namespace {

// Slots that every layer with experts can have alike.
std::int32_t equal_share(std::int64_t budget, std::span<const std::int64_t> blob_bytes,
                         std::int32_t experts) {
  const std::int64_t one_each =
      std::accumulate(blob_bytes.begin(), blob_bytes.end(), std::int64_t{0});
  if (one_each == 0 || budget <= 0) return 0;
  return static_cast<std::int32_t>(std::min<std::int64_t>(budget / one_each, experts));
}

}  // namespace

std::vector<std::int32_t> equal_quotas(std::int64_t budget,
                                       std::span<const std::int64_t> blob_bytes,
                                       std::int32_t experts) {
  const std::int32_t share = equal_share(budget, blob_bytes, experts);
  std::vector<std::int32_t> quota(blob_bytes.size(), 0);
  for (std::size_t layer = 0; layer < quota.size(); ++layer) {
    if (blob_bytes[layer] == 0) continue;
    quota[layer] = share;
    budget -= share * blob_bytes[layer];
  }
  for (std::size_t layer = 0; layer < quota.size(); ++layer) {
    if (blob_bytes[layer] == 0 || blob_bytes[layer] > budget || share == experts) continue;
    ++quota[layer];
    budget -= blob_bytes[layer];
  }
  return quota;
}

std::vector<std::int32_t> marginal_quotas(std::int64_t budget,
                                          std::span<const std::int64_t> blob_bytes,
                                          std::span<const double> rates, ExpertGeometry geometry,
                                          double floor) {
  assert(blob_bytes.size() == static_cast<std::size_t>(geometry.layers));
  assert(rates.size() == geometry.pairs() && floor >= 0 && floor <= 1);
  const auto experts = static_cast<std::size_t>(geometry.experts);
  const auto least =
      static_cast<std::int32_t>(floor * equal_share(budget, blob_bytes, geometry.experts));
  std::vector<double> hottest(rates.begin(), rates.end());  // [layers][experts], falling
  std::vector<std::int32_t> quota(blob_bytes.size(), 0);

  struct Bid {
    double gain;  // uses per byte of the layer's next slot
    std::size_t layer;
    bool operator<(const Bid& other) const {
      return gain != other.gain ? gain < other.gain : layer > other.layer;
    }
  };
  std::priority_queue<Bid> bids;
  const auto bid = [&](std::size_t layer) {
    const auto next = static_cast<std::size_t>(quota[layer]);
    if (next >= experts) return;
    bids.push({hottest[layer * experts + next] / static_cast<double>(blob_bytes[layer]), layer});
  };
  for (std::size_t layer = 0; layer < quota.size(); ++layer) {
    if (blob_bytes[layer] == 0) continue;
    const auto row = hottest.begin() + static_cast<std::ptrdiff_t>(layer * experts);
    std::sort(row, row + geometry.experts, std::greater<>());
    quota[layer] = least;
    budget -= least * blob_bytes[layer];
    bid(layer);
  }
  while (!bids.empty()) {
    const std::size_t layer = bids.top().layer;
    bids.pop();
    if (blob_bytes[layer] > budget) continue;  // a layer of smaller blobs may still fit
    ++quota[layer];
    budget -= blob_bytes[layer];
    bid(layer);
  }
  return quota;
}

}  // namespace strata::core
