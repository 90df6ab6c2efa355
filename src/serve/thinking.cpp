#include "src/serve/thinking.hpp"

namespace strata::serve {

void ThinkingWatch::feed(std::string_view text) {
  if (closed_) return;
  if (inside_) ++spent_;
  tail_ += text;
  if (!inside_) {
    const std::size_t at = tail_.find(thinking_.open);
    if (at != std::string::npos) {
      inside_ = true;
      tail_.erase(0, at + thinking_.open.size());
    }
  }
  if (inside_ && tail_.find(thinking_.close) != std::string::npos) {
    inside_ = false;
    closed_ = true;
    tail_.clear();
    return;
  }
  const std::string& marker = inside_ ? thinking_.close : thinking_.open;
  if (tail_.size() >= marker.size()) tail_.erase(0, tail_.size() - (marker.size() - 1));
}

bool ThinkingWatch::is_due() noexcept {
  if (!inside_ || thinking_.budget < 0 || spent_ < thinking_.budget) return false;
  // The closing tokens bring the marker; should they not, the model is not forced again.
  closed_ = true;
  inside_ = false;
  return true;
}

}  // namespace strata::serve
