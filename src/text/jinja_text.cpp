#include "src/text/jinja_text.hpp"

#include <algorithm>

namespace strata::text::jinja {

std::size_t Text::first_flip_after(std::size_t at) const {
  return static_cast<std::size_t>(std::upper_bound(flips_.begin(), flips_.end(), at) -
                                  flips_.begin());
}

void Text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    first_trusted_ = trusted;
  } else if (last_trusted() != trusted) {
    flips_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  bytes_ += bytes;
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  other.for_each_run(begin, end,
                     [this](std::string_view run, bool trusted) { append(run, trusted); });
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out;
  out.append(*this, begin, end);
  return out;
}

}  // namespace strata::text::jinja
