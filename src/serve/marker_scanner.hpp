// Looks for markers in a text that comes in pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace strata::serve {

class MarkerScanner {
 public:
  void append(std::string_view text) { held_ += text; }

  // Takes the text in front of the first of the markers into `before`, and the marker away; of two
  // at one place, the first of the list. Nothing found: takes what cannot be the beginning of one.
  [[nodiscard]] std::optional<std::size_t> next(std::span<const std::string_view> markers,
                                                std::string& before) {
    std::size_t at = std::string::npos;
    std::size_t found = 0;
    for (std::size_t i = 0; i < markers.size(); ++i) {
      const std::size_t here = held_.find(markers[i]);
      if (here < at) {
        at = here;
        found = i;
      }
    }
    if (at != std::string::npos) {
      before = held_.substr(0, at);
      held_.erase(0, at + markers[found].size());
      return found;
    }
    const std::size_t safe = held_.size() - may_begin(markers);
    before = held_.substr(0, safe);
    held_.erase(0, safe);
    return std::nullopt;
  }
  [[nodiscard]] std::string take_rest() { return std::exchange(held_, {}); }

 private:
  // The length of the longest end of the text that a marker begins with.
  [[nodiscard]] std::size_t may_begin(std::span<const std::string_view> markers) const {
    std::size_t longest = 0;
    for (const std::string_view marker : markers) {
      std::size_t n = std::min(marker.size() - 1, held_.size());
      while (n > longest && !std::string_view(held_).ends_with(marker.substr(0, n))) --n;
      longest = std::max(longest, n);
    }
    return longest;
  }

  std::string held_;
};

}  // namespace strata::serve
