// The options of the expert cache, for every command that computes.
#pragma once

#include "strata/runtime/cache_options.hpp"

#include <CLI/CLI.hpp>

#include <string>

namespace strata::app {

// --cache-policy, a name that core::policy_of() knows.
CLI::Option* add_policy(CLI::App& app, std::string& policy);

class CacheFlags {
 public:
  void add(CLI::App& app);
  // Error(kUsage) names the flag that cannot be obeyed.
  [[nodiscard]] CacheOptions options() const;

 private:
  CLI::App* app_ = nullptr;
  std::string size_, limit_, link_, policy_ = "default", fetch_;
  bool per_layer_ = false;
  std::string profile_, save_;
  double save_minutes_ = CacheOptions{}.save_every_minutes;
  int adapt_every_ = core::kDefaultAdaptEvery;
  int adapt_swaps_ = CacheOptions{}.adapt_swaps;
  float adapt_decay_ = 0;
  std::int64_t reserve_mib_ = static_cast<std::int64_t>(kDefaultReserveBytes >> 20);
  int accelerator_threads_ = CacheOptions{}.accelerator_threads;
};

}  // namespace strata::app
