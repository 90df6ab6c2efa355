#include "strata/runtime/stop_strings.hpp"

#include "strata/base/error.hpp"

#include <algorithm>
#include <utility>

namespace strata::runtime {
namespace {

std::vector<std::size_t> borders(std::string_view text) {
  std::vector<std::size_t> border(text.size(), 0);
  for (std::size_t i = 1; i < text.size(); ++i) {
    std::size_t length = border[i - 1];
    while (length > 0 && text[i] != text[length]) length = border[length - 1];
    border[i] = length + (text[i] == text[length] ? 1 : 0);
  }
  return border;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    if (stop.empty()) fail(ErrorKind::kUsage, "a stop string is empty; leave it out");
    auto border = borders(stop);
    patterns_.push_back({std::move(stop), std::move(border)});
  }
}

StopResult StopMatcher::feed(std::string_view piece) {
  if (stop_) return {"", stop_};
  for (const char byte : piece) {
    held_.push_back(byte);
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      Pattern& pattern = patterns_[i];
      std::size_t& matched = pattern.matched;
      while (matched > 0 && pattern.text[matched] != byte) matched = pattern.border[matched - 1];
      if (pattern.text[matched] == byte) ++matched;
      const bool complete = matched == pattern.text.size();
      if (complete && (!stop_ || matched > patterns_[*stop_].text.size())) stop_ = i;
    }
    if (stop_) {
      held_.resize(held_.size() - patterns_[*stop_].text.size());
      return {std::exchange(held_, {}), stop_};
    }
  }
  std::size_t keep = 0;
  for (const Pattern& pattern : patterns_) keep = std::max(keep, pattern.matched);
  StopResult result{held_.substr(0, held_.size() - keep), std::nullopt};
  held_.erase(0, held_.size() - keep);
  return result;
}

std::string StopMatcher::finish() {
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace strata::runtime
