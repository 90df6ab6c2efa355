#include "strata/runtime/stats.hpp"

namespace strata::runtime {

std::string_view part_name(Part part) noexcept {
  switch (part) {
    case Part::kDense:
      return "dense";
    case Part::kAttention:
      return "attention";
    case Part::kExperts:
      return "experts";
    case Part::kHead:
      return "head";
    case Part::kOther:
      return "other";
  }
  return "";
}

std::uint64_t Stats::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const PartStats& p : parts) sum += p.bytes;
  return sum;
}

Stats Stats::operator-(const Stats& earlier) const noexcept {
  Stats d = *this;
  for (std::size_t i = 0; i < kParts; ++i) {
    d.parts[i].seconds -= earlier.parts[i].seconds;
    d.parts[i].bytes -= earlier.parts[i].bytes;
  }
  d.windows -= earlier.windows;
  d.tokens -= earlier.tokens;
  d.seconds -= earlier.seconds;
  return d;
}

}  // namespace strata::runtime
