#include "src/app/cache_report.hpp"

#include "src/app/report.hpp"
#include "strata/runtime/expert_caching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace strata::app {
namespace {

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string bytes(std::uint64_t n) { return format_bytes(static_cast<double>(n)); }

std::string adaptation(const CacheOptions& options) {
  if (options.policy.kind == core::PolicyKind::kNone) return "nothing is ever resident";
  if (options.policy.kind == core::PolicyKind::kStatic) return "what the profile names stays";
  if (options.adapt_every == 0) return "nothing is swapped";
  return fmt::format("up to {} swaps every {} token{}", options.adapt_swaps, options.adapt_every,
                     options.adapt_every == 1 ? "" : "s");
}

struct LayerSpread {
  int lowest = 0, highest = 0;  // layers
  double low = std::numeric_limits<double>::infinity(), high = -1;
};

LayerSpread spread_of(const core::ExpertTiers& tiers) {
  LayerSpread spread;
  for (int layer = 0; layer < tiers.layers(); ++layer) {
    const core::TierCounts& counts = tiers.counts(layer);
    if (counts.rows() == 0) continue;
    const double rate = share(counts.hit_rows, counts.rows());
    if (rate < spread.low) spread.low = rate, spread.lowest = layer;
    if (rate > spread.high) spread.high = rate, spread.highest = layer;
  }
  return spread;
}

// Less than a twentieth is how drivers round, and no news.
std::string describe_loss(const runtime::ExpertCaching& caching) {
  const std::uint64_t got = caching.plan().cache_bytes, planned = caching.planned_bytes();
  if (planned - got <= planned / 20) return "";
  return fmt::format(
      "\n         {} less than planned: loading the model left less of the GPU's memory free",
      bytes(planned - got));
}

}  // namespace

std::string describe_cache(const Engine& engine) {
  const runtime::ExpertCaching* caching = engine.caching();
  if (caching == nullptr) return "";
  const core::ExpertCache& cache = caching->cache();
  const auto [least, most] = std::ranges::minmax(cache.quotas());
  const std::string slots = least == most ? fmt::format("{} a layer", least)
                                          : fmt::format("{} to {} a layer", least, most);
  return fmt::format(
      "cache    {} of experts, {:.1f} % of all, in {} slots, {}, on a {}\n"
      "         {} filled {}; policy {}: {}{}",
      bytes(cache.bytes()), 100 * share(cache.bytes(), engine.report().expert_bytes), cache.slots(),
      slots, caching->accelerator(), caching->control().swaps().prefilled,
      caching->profile() || caching->control().swaps().prefilled == 0 ? "from the profile"
                                                                      : "evenly, without a profile",
      core::policy_name(caching->options().policy.kind), adaptation(caching->options()),
      describe_loss(*caching));
}

std::string cache_summary(const Engine& engine) {
  const runtime::ExpertCaching* caching = engine.caching();
  const core::TierCounts total = engine.tiers().total();
  if (caching == nullptr || total.rows() == 0) return "";
  const core::SwapCounts& swaps = caching->control().swaps();
  const core::OptimumRecord::Result best = caching->compare_with_optimum();
  const LayerSpread spread = spread_of(engine.tiers());
  std::string text = fmt::format(
      "cache    {:.1f} % of {} expert uses hit, {:.1f} % at layer {} to {:.1f} % at layer {}; "
      "{} from the accelerator, {} from RAM\n"
      "         the first {} tokens: {:.1f} %, and the optimum from an empty start {:.1f} %",
      100 * share(total.hit_rows, total.rows()), total.rows(), 100 * spread.low, spread.lowest,
      100 * spread.high, spread.highest, bytes(total.hit_bytes), bytes(total.miss_bytes),
      best.tokens, 100 * best.hit_rate, 100 * best.optimum);
  text += fmt::format(
      "\n         {} copies, {}; {} in place of others; {:.0f} % served, {:.0f} % left unused; "
      "{} passes of {}",
      swaps.copies, bytes(swaps.bytes_copied), swaps.replaced,
      100 * share(swaps.useful, swaps.copies), 100 * share(swaps.wasted, swaps.copies),
      swaps.passes,
      format_seconds(swaps.passes == 0 ? 0
                                       : swaps.pass_seconds / static_cast<double>(swaps.passes)));
  if (!caching->options().fetch->off()) {
    text += fmt::format(
        "\n         {:.0f} % of the misses fetched: {} experts, {} at {:.1f} GB/s; {} kept, "
        "{:.0f} % of them served again",
        100 * share(total.fetch_experts, total.fetch_experts + total.miss_experts),
        total.fetch_experts, bytes(total.fetch_bytes),
        total.fetch_seconds > 0 ? static_cast<double>(total.fetch_bytes) / total.fetch_seconds / 1e9
                                : 0,
        swaps.admitted, 100 * share(swaps.admitted_useful, swaps.admitted));
  }
  return text;
}

nlohmann::ordered_json cache_json(const Engine& engine) {
  const runtime::ExpertCaching* caching = engine.caching();
  if (caching == nullptr) return nullptr;
  const core::TierCounts total = engine.tiers().total();
  const core::SwapCounts& swaps = caching->control().swaps();
  const core::ExpertCache& cache = caching->cache();
  const core::OptimumRecord::Result best = caching->compare_with_optimum();
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (int layer = 0; layer < cache.layers(); ++layer) {
    const core::TierCounts& counts = engine.tiers().counts(layer);
    layers.push_back({{"slots", cache.quota(layer)},
                      {"resident", cache.resident(layer)},
                      {"hits", counts.hit_rows},
                      {"misses", counts.miss_rows + counts.fetch_rows}});
  }
  return {{"accelerator", caching->accelerator()},
          {"policy", core::policy_name(caching->options().policy.kind)},
          {"slots", cache.slots()},
          {"bytes", cache.bytes()},
          {"prefilled", swaps.prefilled},
          {"hits", total.hit_rows},
          {"misses", total.miss_rows + total.fetch_rows},
          {"hit_rate", share(total.hit_rows, total.rows())},
          {"hit_bytes", total.hit_bytes},
          {"miss_bytes", total.miss_bytes},
          {"fetched", total.fetch_experts},
          {"fetch_bytes", total.fetch_bytes},
          {"fetch_seconds", total.fetch_seconds},
          {"admitted", swaps.admitted},
          {"admitted_useful", swaps.admitted_useful},
          {"recorded_tokens", best.tokens},
          {"recorded_hit_rate", best.hit_rate},
          {"optimum_hit_rate", best.optimum},
          {"copies", swaps.copies},
          {"replaced", swaps.replaced},
          {"bytes_copied", swaps.bytes_copied},
          {"copies_useful", swaps.useful},
          {"copies_wasted", swaps.wasted},
          {"passes", swaps.passes},
          {"pass_seconds", swaps.pass_seconds},
          {"bookkeeping_seconds", swaps.bookkeeping_seconds},
          {"layers", layers}};
}

}  // namespace strata::app
