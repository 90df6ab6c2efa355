// The flags of strata simulate, and what they make of the simulator's options.
#pragma once

#include "strata/core/simulator.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::app {

struct SimulateFlags {
  std::vector<std::string> traces, training;
  std::string profile, model, layers, plot;
  std::vector<std::string> policies, caches, quotas;
  std::string admission = "passes";
  std::int64_t synthetic = 0;  // tokens of a made-up trace
  std::vector<std::uint64_t> seeds = {1};
  double train_split = 0;
  std::int64_t skip = 0;
  std::int32_t experts = 0;
  std::int64_t expert_bytes = 0;
  core::SimulationOptions machine;  // of it, only the passes and the link
  double link_gb = 0, ram_gb = 0, token_ms = 0;
  std::int32_t over_time = 0, period = 0;
  bool per_layer = false, json = false;

  SimulateFlags();
  void add(CLI::App& app);
};

// What a run of the command works on. The options point into it: it stays where it is.
struct SimulateInput {
  explicit SimulateInput(const SimulateFlags& flags);
  SimulateInput(const SimulateInput&) = delete;
  SimulateInput& operator=(const SimulateInput&) = delete;

  core::Trace trace;                    // on which hits are counted
  std::optional<core::Trace> training;  // other text
  std::optional<core::Profile> profile;
  core::GridOptions grid;
  std::vector<bool> admissions;  // instant, for each way asked for
};

}  // namespace strata::app
