// Cache policies: which experts deserve the fast memory. One implementation serves the engine and
// the simulator: a policy observes the router's choices and scores the experts of a layer; whoever
// owns the slots turns scores into admissions (the adaptive pass of policy_pass.hpp, or at once at
// every miss in the simulator's instant mode).
//
// A policy knows how many slots there are but never sees what is resident, so that hit rates cannot
// feed back into it.
// Not thread-safe: observed and asked by one thread, between windows.
#pragma once

#include "strata/core/heat.hpp"
#include "strata/core/profile.hpp"
#include "strata/core/trace.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace strata::core {

enum class PolicyKind {
  kNone,     // nothing is ever resident
  kFill,     // first come, first kept: free slots are filled, nothing leaves
  kStatic,   // the profile's hottest, for ever
  kLru,      // least recently used leaves
  kLfu,      // least frequently used leaves, uses fading with one half-life
  kLfru,     // least frequent by recent leaves: decayed uses / age of the last use
  kMixture,  // expected uses from several half-lives together, by fixed weights
  kDefault,  // the same, with weights that are learned for the text and the cache's size
  kPairs,    // the default, and which experts follow those chosen last
  kOptimum,  // Belady's: what is used again latest leaves or is not let in; needs the future
};

// What becomes of a miss.
enum class Admission {
  kNever,      // only a warm start fills slots
  kFreeSlots,  // takes a free slot, replaces nothing
  kAlways,     // replaces the lowest score
  kIfBetter,   // replaces the lowest score if its own is higher
};

// An estimate of uses per token from several half-lives together: those in tokens, and their
// weights. The default was found as docs/cache-policies.md tells.
struct Mixture {
  std::vector<float> half_lives = {6, 24, 96, 768};
  std::vector<float> weights = {0.20F, 0.40F, 0.30F, 0.10F};
};

// kPairs: a layer's choice says something of its next one (successors.hpp).
struct PairOptions {
  float weight = 0.5F;  // of what the last choice adds to an expert's rate, uses per token
  float prior = 16;     // uses of an expert before its followers count for half
};

struct PolicyOptions {
  PolicyKind kind = PolicyKind::kDefault;
  float half_life = 32;    // tokens; kLfu and kLfru
  float weight_power = 0;  // kLfu: a use counts (router weight / event's mean) to this power
  Mixture mixture = {};    // kMixture; kDefault and kPairs, which begin with its weights
  PairOptions pairs = {};  // kPairs
};

class Policy {
 public:
  virtual ~Policy() = default;

  // Token path. One event a token and MoE layer, then end_token().
  virtual void observe(const RoutingEvent& event) noexcept = 0;
  virtual void end_token() noexcept = 0;

  // out[expert] for all experts of the layer: higher stays. 0 or less than kNeverUsed: not worth a
  // slot even when one is free.
  virtual void scores(std::int32_t layer, std::span<float> out) const noexcept = 0;

  [[nodiscard]] virtual Admission admission() const noexcept = 0;
  // Whether scores are expected uses per token, so that differences can be weighed against the
  // cost of a copy.
  [[nodiscard]] virtual bool scores_are_rates() const noexcept { return false; }
  // Tokens for which a rate is expected to hold.
  [[nodiscard]] virtual double horizon() const noexcept { return 64; }
};

// The score of an expert that was never used nor ranked by a profile.
inline constexpr float kNeverUsed = -1e30F;

// `profile`, where given, is the prior: kStatic ranks by it, the others start from it. `slots`:
// [layers] how many experts of each layer can be resident; without it no weights are learned.
// kOptimum is made by make_optimum.
[[nodiscard]] std::unique_ptr<Policy> make_policy(const PolicyOptions& options,
                                                  ExpertGeometry geometry,
                                                  const Profile* profile = nullptr,
                                                  std::span<const std::int32_t> slots = {});

// The offline optimum for exactly this trace, which must outlive it and be observed from its start.
// A token's experts of a layer are requested together (event-atomic): none of them can make room
// for another, and those that are not worth a slot bypass it.
[[nodiscard]] std::unique_ptr<Policy> make_optimum(const Trace& trace, ExpertGeometry geometry);

// "none", "fill", "static", "lru", "lfu", "lfru", "mixture", "default", "pairs", "optimum".
[[nodiscard]] std::string_view policy_name(PolicyKind kind) noexcept;
[[nodiscard]] std::optional<PolicyKind> policy_of(std::string_view name) noexcept;

// How much a profile counts against what is observed: like this many tokens.
inline constexpr float kProfileTokens = 64;

}  // namespace strata::core
