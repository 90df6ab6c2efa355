// Where a model's thinking begins and ends in its answer, and what to do when it takes too long.
#pragma once

#include "strata/serve/answer.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace strata::serve {

// Feeds on the text of an answer, token by token.
class ThinkingWatch {
 public:
  explicit ThinkingWatch(Thinking thinking)
      : thinking_(std::move(thinking)), inside_(thinking_.starts_open) {}

  // The text of one token. Markers may span tokens.
  void feed(std::string_view text);
  [[nodiscard]] bool inside() const noexcept { return inside_; }
  [[nodiscard]] std::size_t spent() const noexcept {  // tokens inside, the closing ones too
    return static_cast<std::size_t>(spent_);
  }
  // The budget is used up: `closing` is to be written now. True once.
  [[nodiscard]] bool is_due() noexcept;
  [[nodiscard]] const Thinking& config() const noexcept { return thinking_; }

 private:
  Thinking thinking_;
  bool inside_;
  bool closed_ = false;     // thinking has ended: it does not begin again
  std::int64_t spent_ = 0;  // tokens inside
  std::string tail_;        // the end of the text, shorter than the marker that is waited for
};

}  // namespace strata::serve
