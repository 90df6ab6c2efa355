// The sequences that requests are computed in. A slot whose request has ended keeps its tokens with
// their keys and values, for the next request that begins the same way.
#pragma once

#include "src/serve/job.hpp"
#include "strata/runtime/engine.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace strata::serve {

struct Slot {
  enum class Phase {
    kIdle,
    kPlaced,     // has a job, but waits for a neighbour that computes the same beginning
    kReading,    // computes the prompt
    kAnswering,  // computes a token at a time
  };

  std::unique_ptr<Session> session;  // for its state; the tokens are kept here
  std::vector<std::int32_t> tokens;  // computed
  Phase phase = Phase::kIdle;
  std::unique_ptr<Job> job;  // null: idle
  std::uint64_t last_used = 0;

  // Tokens of the prompt that are not computed yet.
  [[nodiscard]] std::size_t left_to_read() const noexcept {
    return phase == Phase::kReading ? job->prompt().size() - tokens.size() : 0;
  }
};

[[nodiscard]] std::size_t common_prefix(std::span<const std::int32_t> a,
                                        std::span<const std::int32_t> b) noexcept;

class SlotTable {
 public:
  // Error(kResource) when there is no room for the sequences.
  SlotTable(Engine& engine, int count);

  [[nodiscard]] std::span<Slot> all() noexcept { return slots_; }
  [[nodiscard]] std::span<const Slot> all() const noexcept { return slots_; }
  [[nodiscard]] bool has_idle() const noexcept;
  [[nodiscard]] std::size_t busy() const noexcept;

  // Gives the job an idle slot: the one whose tokens it goes on with, else the least recently used.
  // There must be one.
  void place(std::unique_ptr<Job> job);
  // Has a placed slot begin to read, with what it or any other slot holds of its prompt; or leaves
  // it placed while a neighbour is reading more of the same beginning. Slots that read later than
  // this one see it.
  void start_if_ready(Slot& slot);
  // The slot's job has ended.
  void release(Slot& slot);
  // Forgets what an idle slot holds.
  void clear(Slot& slot);

 private:
  Engine& engine_;
  std::vector<Slot> slots_;
  std::uint64_t uses_ = 0;
};

}  // namespace strata::serve
