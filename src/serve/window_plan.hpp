// Which tokens the next window computes.
#pragma once

#include "src/serve/slots.hpp"
#include "strata/runtime/forward.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace strata::serve {

// Shares `budget` among those who want so much each: all get the same, but nobody more than wanted;
// what some leave goes to the others. Short prompts are read at once, long ones move on meanwhile.
[[nodiscard]] std::vector<std::size_t> fair_shares(std::span<const std::size_t> wanted,
                                                   std::size_t budget);

struct WindowPlan {
  struct Part {
    Slot* slot;
    std::size_t tokens;  // that the window has of it
    bool wants_logits;   // after the last of them
  };
  std::vector<Part> parts;
  std::vector<runtime::WindowToken> window;
};

// The next token of every slot that answers and pieces of the prompts of those that read: at most
// `chunk` tokens of prompts while somebody answers or a short prompt is read to its end, else as
// many as the window holds. The window must hold more tokens than there are slots.
void plan_window(std::span<Slot> slots, std::size_t max_window, std::size_t chunk,
                 WindowPlan& plan);

}  // namespace strata::serve
