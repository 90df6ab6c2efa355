// Quotas: how many slots of the fast memory each layer gets. Layers have blobs of different sizes,
// so the budget is in bytes. Without quotas the first layers of the first token fill everything.
#pragma once

#include "strata/core/profile.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace strata::core {

// blob_bytes: [layers], 0 for a layer without experts. The result: [layers] slots, at most
// `experts` of each layer, whose blobs together have at most `budget` bytes.

// The same number for every layer, as --expert-cache-per-layer gives; what is left over goes in
// layer order, one slot each.
[[nodiscard]] std::vector<std::int32_t> equal_quotas(std::int64_t budget,
                                                     std::span<const std::int64_t> blob_bytes,
                                                     std::int32_t experts);

// By marginal gain: slot after slot to the layer where the next hottest expert brings the most
// expected uses per byte. rates: [layers][experts] uses per token, or counts. No layer starves:
// `floor` of its equal share is every layer's, 0 to 1.
[[nodiscard]] std::vector<std::int32_t> marginal_quotas(std::int64_t budget,
                                                        std::span<const std::int64_t> blob_bytes,
                                                        std::span<const double> rates,
                                                        ExpertGeometry geometry,
                                                        double floor = 0.5);

}  // namespace strata::core
