// The adaptive pass: every few tokens, between windows, turns a policy's scores into swaps. Each is
// a copy of one expert into a slot of its layer, free or taken from a victim.
//
// What a swap must earn. A copy reads its bytes over the link and a miss reads the same bytes from
// RAM, so both are counted in misses: a swap costs `swap_cost` of them and its newcomer saves
// (rate - victim's rate) a token for as long as the estimate holds, `horizon` tokens. It is made if
// it earns more than it costs. Policies whose scores are no rates swap at any advantage.
//
// A pass after every token is the default: the 0.06 to 0.17 ms it takes at 48 x 512 experts
// (bench/policy_bench) are worth 0.2 to 0.4 points of hit rate against one after every second.
#pragma once

#include "strata/core/policy.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace strata::core {

// Where an expert is, as the pass sees it: what is being copied in is neither victim nor candidate.
enum class ExpertState : std::uint8_t { kAbsent, kArriving, kResident };

// Bandwidths in bytes a second, as measured.
struct LinkModel {
  double link = 25e9;   // RAM to the fast memory
  double slow = 50e9;   // weights the CPU gets through where an expert misses
  double fast = 500e9;  // weights the device gets through where it hits

  // A copy's price in saved misses: the time the link takes a share `contention` of which the CPU
  // loses since both read the same RAM, over the time a hit saves.
  [[nodiscard]] double swap_cost(double contention = 0.5) const noexcept {
    return contention * (1 / link) / (1 / slow - 1 / fast);
  }
};

// Tokens from pass to pass where the user names none.
inline constexpr std::int32_t kDefaultAdaptEvery = 1;

struct PassOptions {
  std::int32_t max_swaps = 96;  // in one pass, over all layers; free slots count too
  double swap_cost = 1;         // in misses: LinkModel::swap_cost
  double horizon = 0;           // tokens an advantage is expected to last; 0: the policy's own
};

struct Swap {
  std::int32_t layer;
  std::int32_t newcomer;
  std::int32_t victim;  // -1: a free slot
  float gain;           // score over the victim's
};

// Reused from pass to pass: no allocation after the first.
class AdaptivePass {
 public:
  explicit AdaptivePass(ExpertGeometry geometry);

  // states: [layers][experts]. quota: [layers] slots of each layer; what a layer holds beyond it
  // stays. Free slots first, then the largest gains, at most max_swaps. No expert is in two swaps,
  // newcomers are kAbsent, victims kResident. The span lives until the next call.
  [[nodiscard]] std::span<const Swap> plan(const Policy& policy,
                                           std::span<const ExpertState> states,
                                           std::span<const std::int32_t> quota,
                                           const PassOptions& options);

  // An expert by how much it should come in or go: its score, or minus its score.
  struct Keyed {
    float key;
    std::int32_t expert;
  };

 private:
  // What a layer's swaps must beat, and how many there can be.
  struct Bar {
    std::size_t most;  // swaps of the pass
    float margin;      // that a newcomer's score must be above its victim's
    float worthless;   // what a score is at least as a victim's
    // Gains that still make it, once there are `most` swaps: more than these.
    float free_gain;  // into a free slot
    float swap_gain;  // in a victim's place
  };

  void plan_layer(std::int32_t layer, std::span<const ExpertState> states, std::int32_t quota,
                  const Bar& bar);
  void drop_what_cannot_make_it(Bar& bar);

  ExpertGeometry geometry_;
  std::vector<float> scores_;      // [experts]
  std::vector<Keyed> candidates_;  // of a layer, hottest first
  std::vector<Keyed> residents_;   // coldest first
  std::vector<Swap> swaps_;
};

}  // namespace strata::core
