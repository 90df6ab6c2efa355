#include "strata/core/fetch.hpp"

#include "strata/base/error.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

namespace strata::core {

FetchRequest parse_fetch_request(const std::string& text) {
  if (text == "auto") return {.automatic = true};
  FetchRequest request;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, request.share);
  if (error != std::errc() || read != end || !(request.share >= 0 && request.share <= 1)) {
    fail(ErrorKind::kUsage, "--pcie-frac '{}': give auto, or a share of the misses from 0 to 1",
         text);
  }
  return request;
}

void MeasuredRate::add(double bytes, double seconds) noexcept {
  constexpr double kKept = 0.95;
  bytes_ = kKept * bytes_ + bytes;
  seconds_ = kKept * seconds_ + seconds;
}

FetchChooser::FetchChooser(FetchRequest request, int layers)
    : request_(request), owed_(static_cast<std::size_t>(layers)) {}

std::size_t FetchChooser::kind(int experts, int rows) noexcept {
  const auto each = static_cast<unsigned>(rows / std::max(experts, 1));
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(std::max(each, 1U))) - 1,
                               kKinds - 1);
}

int FetchChooser::choose(const Layer& layer) noexcept {
  if (layer.misses == 0 || request_.off()) return 0;
  if (request_.automatic) return soonest(layer);
  double& owed = owed_[static_cast<std::size_t>(layer.layer)];
  owed += request_.share * layer.misses;
  // A share such as 0.1 adds up to a little less than a whole one.
  const int count = std::min(static_cast<int>(owed + 1e-9), layer.misses);
  owed -= count;
  return count;
}

int FetchChooser::soonest(const Layer& layer) noexcept {
  const std::size_t rows = kind(layer.misses, layer.miss_rows);
  const double pool = pool_[rows].bytes_per_second();
  const double link = link_.bytes_per_second();
  if (pool == 0) return rows >= kMany && link > 0 ? layer.misses - 1 : 0;  // one to measure it by
  if (link == 0 || ++unused_ >= kTryAgain) {
    unused_ = 0;
    return 1;
  }
  const auto bytes = static_cast<double>(layer.bytes);
  const double of_pool = bytes / pool;  // seconds an expert
  // A prompt's experts come while other work is done (core/expert_stream.hpp), and what the pool
  // computes has its rows carried there and back: only a link much slower than it is helped.
  if (rows >= kMany && of_pool > bytes / link / kMuchSlower) return layer.misses;
  const double rate = accelerator_.bytes_per_second();
  const double of_accelerator = rate > 0 ? bytes / rate : 0;
  const double of_fetch = bytes / link + of_accelerator;
  // Both sides are done at the same time where n is this; whole experts lie on either side of it.
  const double even = (layer.misses * of_pool - layer.hits * of_accelerator) / (of_pool + of_fetch);
  const auto seconds = [&](int n) {
    return std::max((layer.misses - n) * of_pool, layer.hits * of_accelerator + n * of_fetch);
  };
  const int below = std::clamp(static_cast<int>(even), 0, layer.misses);
  const int above = std::min(below + 1, layer.misses);
  const int count = seconds(above) < seconds(below) ? above : below;
  if (count > 0) unused_ = 0;
  return count;
}

}  // namespace strata::core
