#include "src/serve/window_plan.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace strata::serve {
namespace {

void add(WindowPlan& plan, Slot& slot, std::span<const std::int32_t> tokens, bool wants_logits) {
  if (tokens.empty()) return;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    plan.window.push_back({tokens[i], static_cast<std::int32_t>(slot.tokens.size() + i),
                           &slot.session->state(), wants_logits && i + 1 == tokens.size()});
  }
  plan.parts.push_back({&slot, tokens.size(), wants_logits});
}

}  // namespace

std::vector<std::size_t> fair_shares(std::span<const std::size_t> wanted, std::size_t budget) {
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return wanted[i]; });
  std::vector<std::size_t> shares(wanted.size());
  std::size_t sharers = wanted.size();
  for (const std::size_t i : order) {  // the least first: what it leaves is shared by the rest
    const std::size_t even = (budget + sharers - 1) / sharers;
    shares[i] = std::min(wanted[i], even);
    budget -= shares[i];
    --sharers;
  }
  return shares;
}

void plan_window(std::span<Slot> slots, std::size_t max_window, std::size_t chunk,
                 WindowPlan& plan) {
  plan.parts.clear();
  plan.window.clear();
  std::vector<Slot*> readers;
  std::vector<std::size_t> wanted;
  for (Slot& slot : slots) {
    if (slot.phase == Slot::Phase::kAnswering) {
      const std::int32_t next = slot.job->next();
      add(plan, slot, {&next, 1}, true);
    } else if (slot.phase == Slot::Phase::kReading) {
      readers.push_back(&slot);
      wanted.push_back(slot.left_to_read());
    }
  }
  assert(plan.window.size() < max_window);
  std::size_t budget = max_window - plan.window.size();
  const bool answers = !plan.window.empty();
  // A prompt that this window can finish does not wait for the rest of a long one either.
  const bool finishes = wanted.size() > 1 && std::ranges::any_of(wanted, [&](std::size_t n) {
                          return n <= chunk / wanted.size();
                        });
  if (answers || finishes) budget = std::min(budget, chunk);
  const std::vector<std::size_t> shares = fair_shares(wanted, budget);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    Slot& slot = *readers[i];
    add(plan, slot, slot.job->prompt().subspan(slot.tokens.size(), shares[i]),
        shares[i] == wanted[i]);
  }
}

}  // namespace strata::serve
