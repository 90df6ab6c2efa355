#include "strata/serve/counters.hpp"

#include <algorithm>

namespace strata::serve {

void Histogram::observe(double seconds) noexcept {
  const auto bound = std::ranges::lower_bound(kBounds, seconds);
  if (bound != kBounds.end()) ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
  ++count_;
  sum_ += seconds;
}

}  // namespace strata::serve
