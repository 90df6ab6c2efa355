// What a running server shows of itself: Prometheus's text and JSON for the page.
#pragma once

#include "src/serve/fields.hpp"
#include "strata/runtime/audit.hpp"
#include "strata/runtime/engine.hpp"
#include "strata/serve/counters.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strata::serve {

// Experts by tier. A hit or a miss is one expert in one window, however many of the window's tokens
// chose it.
struct ExpertView {
  struct Layer {
    std::uint64_t hits = 0, hits_profile = 0, misses = 0;
    int slots = 0;
    std::string resident;  // a bit an expert, four to a hexadecimal digit, the first the highest
    std::vector<std::uint64_t> uses;  // of each expert, by tokens
  };
  bool caching = false;
  std::vector<Layer> layers;
  runtime::ExpertCounts counts;  // those of the audit log
  std::uint64_t swaps_useful = 0, swaps_wasted = 0;
  std::uint64_t slots = 0, prefilled = 0, bytes = 0;
};

// On the engine's thread.
[[nodiscard]] ExpertView view_experts(const Engine& engine);

struct MonitorView {
  Snapshot snapshot;
  ExpertView experts;
  std::size_t connections = 0;
  double uptime_seconds = 0;
};

// https://prometheus.io/docs/instrumenting/exposition_formats/ (version 0.0.4)
[[nodiscard]] std::string metrics_text(const MonitorView& view);
[[nodiscard]] Json status_json(const MonitorView& view, Engine& engine);
[[nodiscard]] Json slots_json(const Snapshot& snapshot);

}  // namespace strata::serve
