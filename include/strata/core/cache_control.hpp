// Runs an expert cache between windows: watches the router's choices, lands the copies that have
// arrived, and every few tokens swaps colder residents for hotter experts.
//
// Not thread-safe: one thread calls it, between windows. Only the copies run beside it.
#pragma once

#include "strata/base/clock.hpp"
#include "strata/core/copy_engine.hpp"
#include "strata/core/expert_cache.hpp"
#include "strata/core/expert_store.hpp"
#include "strata/core/policy.hpp"
#include "strata/core/policy_pass.hpp"
#include "strata/core/window_routing.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace strata::core {

struct CacheControlOptions {
  PolicyOptions policy;
  std::int32_t adapt_every = kDefaultAdaptEvery;  // tokens between passes; 0: nothing is swapped
  std::int32_t max_swaps = 96;                    // in one pass
};

// Sums since the start. A copy is an expert brought into a slot after the warm start; it is useful
// once it has served a window.
struct SwapCounts {
  std::uint64_t prefilled = 0;  // at the start
  std::uint64_t copies = 0;     // into free slots and in place of victims
  std::uint64_t replaced = 0;   // of them, in place of a victim
  std::uint64_t bytes_copied = 0;
  std::uint64_t useful = 0;
  std::uint64_t wasted = 0;           // gone again without having served
  std::uint64_t admitted = 0;         // fetched for one layer, then kept: no copies
  std::uint64_t admitted_useful = 0;  // of them, those that have served since
  std::uint64_t passes = 0;
  double pass_seconds = 0;         // in passes
  double bookkeeping_seconds = 0;  // between windows, passes included
};

class CacheControl {
 public:
  // `profile`: where given, the prior of the policy and of what is learned. All but the profile
  // must outlive this. Nobody else gives `copies` work.
  CacheControl(ExpertCache& cache, const ExpertStore& store, CopyEngine& copies,
               const Profile* profile, const CacheControlOptions& options);
  ~CacheControl();  // stops the copies, before the arena goes
  CacheControl(const CacheControl&) = delete;
  CacheControl& operator=(const CacheControl&) = delete;

  // Fills the slots with the profile's hottest, waits for the copies and reads a slot of each layer
  // back: Error(kInternal) where it does not hold what was copied. A policy that is `none` fills
  // nothing.
  void warm_start(const Profile& profile, const Progress& progress);
  // The same where nothing is known: as many of each layer as it may hold. They leave as the text
  // shows what is hot; a policy that swaps nothing is not filled so.
  void fill_evenly(const Progress& progress);

  // After each window, before the next: `routing` is what the window's router chose. `slow`,
  // `fast`: bytes a second that the pool and the accelerator get through, 0 while unknown.
  void after_window(const WindowRouting& routing, double slow, double fast);

  [[nodiscard]] const SwapCounts& swaps() const noexcept { return swaps_; }
  // Experts of the layer that served a window from a slot the profile had filled.
  [[nodiscard]] std::uint64_t hits_profile(int layer) const noexcept {
    return hits_profile_[static_cast<std::size_t>(layer)];
  }
  // What the cache has learned, all pairs by their uses, hottest first.
  [[nodiscard]] Profile learned_profile() const;
  // Blocks until all copies have landed.
  void drain();

 private:
  // Of what is resident or arriving, by pair.
  struct Residence {
    bool from_start = false;
    bool admitted = false;  // it was fetched, not copied
    bool served = false;
    std::uint32_t window = 0;  // that last counted it
  };
  [[nodiscard]] std::size_t at(ExpertId id) const noexcept {
    return geometry_.index(id.layer, id.expert);
  }
  void fill(const Profile& profile, const Progress& progress);
  void learn(const WindowRouting& routing);
  void count_hits(int layer, std::span<const std::int32_t> experts);
  void land();
  // What the window fetched stays where its policy would have it come in; that costs nothing more.
  void admit_fetched();
  [[nodiscard]] std::int32_t coldest(int layer) const;
  void pass(double slow, double fast);
  void start(const ExpertCache::Fill& fill, bool from_start);
  void leave(ExpertId victim);

  ExpertCache& cache_;
  const ExpertStore& store_;
  CacheControlOptions options_;
  ExpertGeometry geometry_;
  std::unique_ptr<Policy> policy_;
  Heat learned_;  // slow, for profiles; the policy's own heat is quick
  AdaptivePass planner_;
  CopyEngine& copies_;
  std::vector<ExpertState> states_;                         // [layers][experts]
  std::vector<Residence> residences_;                       // [layers][experts]
  std::vector<std::int32_t> landed_;                        // scratch
  std::vector<std::pair<std::int32_t, ExpertId>> fetched_;  // scratch
  std::vector<float> scores_;                               // scratch, of a layer
  std::vector<ExpertId> arriving_;       // [slots] whom a slot is being filled for
  std::vector<std::uint8_t> read_back_;  // [layers] whether a slot of it has been checked
  std::vector<std::uint64_t> hits_profile_;
  bool from_profile_ = false;  // what there was at the start
  SwapCounts swaps_;
  std::int64_t tokens_ = 0;
  std::int64_t since_pass_ = 0;  // tokens
  std::uint32_t window_ = 0;
  Stopwatch pass_watch_;  // since the last pass
};

}  // namespace strata::core
