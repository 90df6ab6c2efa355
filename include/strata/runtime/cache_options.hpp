// What the user asks of the expert cache.
#pragma once

#include "strata/core/fetch.hpp"
#include "strata/core/planner.hpp"
#include "strata/core/policy.hpp"
#include "strata/core/policy_pass.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace strata {

inline constexpr std::uint64_t kDefaultReserveBytes = std::uint64_t{700} << 20;

struct CacheOptions {
  core::CacheRequest size;  // kNone: every expert is computed from RAM
  std::string needs_cache;  // a flag that was given and does nothing without a cache: an error then
  bool equal_quotas = false;           // the same slots for every layer, whatever a profile says
  std::filesystem::path profile;       // STRP: a warm start
  std::filesystem::path save_profile;  // STRP: where what was learned goes
  double save_every_minutes = 10;      // and how often, besides the end
  core::PolicyOptions policy;
  std::int32_t adapt_every = core::kDefaultAdaptEvery;  // tokens between passes; 0: no swaps
  std::int32_t adapt_swaps = 96;                        // most swaps in a pass
  // Misses that go over the link: by default as many as end sooner so on a GPU, elsewhere none.
  std::optional<core::FetchRequest> fetch;
  std::uint64_t accelerator_limit = 0;  // bytes that may be used of its memory; 0: what is free
  std::uint64_t reserve_bytes = kDefaultReserveBytes;  // of it, left alone

  // The accelerator is played by CPU threads with an arena in RAM (there is no GPU device yet).
  int accelerator_threads = 1;
  double link_bytes_per_second = 0;  // at which experts are copied to it; 0: as fast as RAM allows
};

}  // namespace strata
