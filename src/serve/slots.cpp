#include "src/serve/slots.hpp"

#include "strata/base/error.hpp"
#include "strata/runtime/sequence_copy.hpp"

#include <algorithm>
#include <utility>

namespace strata::serve {
namespace {

// A shorter beginning in common is computed twice rather than waited for.
constexpr std::size_t kWorthWaiting = 16;

}  // namespace

std::size_t common_prefix(std::span<const std::int32_t> a,
                          std::span<const std::int32_t> b) noexcept {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

SlotTable::SlotTable(Engine& engine, int count) : engine_(engine) {
  slots_.resize(static_cast<std::size_t>(count));
  for (Slot& slot : slots_) {
    try {
      slot.session = engine.new_session();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kResource) throw;
      fail(ErrorKind::kResource, "{} slots of {} positions: {}; lower --slots or --context", count,
           engine.context(), error.what());
    }
  }
}

bool SlotTable::has_idle() const noexcept {
  return std::ranges::any_of(slots_, [](const Slot& s) { return s.phase == Slot::Phase::kIdle; });
}

std::size_t SlotTable::busy() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const Slot& s) { return s.phase != Slot::Phase::kIdle; }));
}

void SlotTable::place(std::unique_ptr<Job> job) {
  Slot* chosen = nullptr;
  std::size_t most = 0;
  for (Slot& slot : slots_) {
    if (slot.phase != Slot::Phase::kIdle) continue;
    const std::size_t shared = common_prefix(slot.tokens, job->prompt());
    // A conversation that only begins alike is copied from, not overwritten.
    if (shared > most && shared * 2 >= slot.tokens.size()) {
      chosen = &slot;
      most = shared;
    }
  }
  if (chosen == nullptr) {
    for (Slot& slot : slots_) {
      if (slot.phase != Slot::Phase::kIdle) continue;
      if (chosen == nullptr || slot.last_used < chosen->last_used) chosen = &slot;
    }
  }
  chosen->job = std::move(job);
  chosen->phase = Slot::Phase::kPlaced;
}

void SlotTable::start_if_ready(Slot& slot) {
  const std::span<const std::int32_t> prompt = slot.job->prompt();
  const Slot* best = &slot;
  std::size_t here = common_prefix(slot.tokens, prompt);
  std::size_t to_come = 0;
  for (const Slot& other : slots_) {
    if (&other == &slot) continue;
    const std::size_t shared = common_prefix(other.tokens, prompt);
    if (shared > here) {
      here = shared;
      best = &other;
    }
    if (other.phase == Slot::Phase::kReading) {
      to_come = std::max(to_come, common_prefix(other.job->prompt(), prompt));
    }
  }
  // The last token is computed even when it is held: the logits after it are wanted.
  here = std::min(here, prompt.size() - 1);
  to_come = std::min(to_come, prompt.size() - 1);
  if (to_come >= here + kWorthWaiting) return;
  if (best != &slot) {
    runtime::copy_prefix(best->session->state(), slot.session->state(), engine_.hparams(),
                         static_cast<int>(here), engine_.main_device());
  }
  slot.tokens.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(here));
  slot.phase = Slot::Phase::kReading;
  slot.job->start(here);
}

void SlotTable::release(Slot& slot) {
  slot.job.reset();
  slot.phase = Slot::Phase::kIdle;
  slot.last_used = ++uses_;
}

void SlotTable::clear(Slot& slot) {
  slot.tokens.clear();
  slot.last_used = 0;
}

}  // namespace strata::serve
