#include "strata/core/simulator_report.hpp"

#include "strata/core/line_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

namespace strata::core {
namespace {

std::int64_t slots_of(const SimulationResult& result) {
  return std::accumulate(result.layers.begin(), result.layers.end(), std::int64_t{0},
                         [](std::int64_t sum, const LayerResult& l) { return sum + l.slots; });
}

double per(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string_view mode_of(const SimulationResult& result) {
  return result.instant ? "instant" : "passes";
}

std::string label_of(const SimulationResult& result) {
  return policy_label(result.policy, result.half_life);
}

std::vector<PlotLine> lines_of(std::span<const SimulationResult> results) {
  std::vector<PlotLine> all;
  for (const SimulationResult& r : results) {
    std::string name = label_of(r);
    if (r.policy != PolicyKind::kOptimum) name += fmt::format(", {}", mode_of(r));
    if (r.quota != QuotaKind::kEqual) name += fmt::format(", {} quotas", quota_name(r.quota));
    auto found = std::find_if(all.begin(), all.end(), [&](auto& s) { return s.name == name; });
    if (found == all.end()) found = all.insert(all.end(), {name, {}});
    found->points.emplace_back(r.capacity, r.hit_rate());
  }
  for (PlotLine& line : all) std::sort(line.points.begin(), line.points.end());
  return all;
}

}  // namespace

std::string policy_label(PolicyKind kind, float half_life) {
  const bool tuned = kind == PolicyKind::kLfu || kind == PolicyKind::kLfru;
  return tuned ? fmt::format("{}:{:g}", policy_name(kind), half_life)
               : std::string(policy_name(kind));
}

std::string format_table(std::span<const SimulationResult> results) {
  std::string text = fmt::format("{:<8} {:<10} {:<7} {:>6} {:>6} {:>6} {:>7} {:>9} {:>6} {:>9}\n",
                                 "policy", "quota", "mode", "cache", "slots", "hits", "copies",
                                 "MB moved", "useful", "MB missed");
  text += fmt::format("{:<8} {:<10} {:<7} {:>6} {:>6} {:>6} {:>7} {:>9} {:>6} {:>9}\n", "", "", "",
                      "%", "", "%", "/token", "/token", "%", "/token");
  for (const SimulationResult& r : results) {
    const auto mb_a_token = [&](std::int64_t bytes) { return per(bytes, r.tokens) / 1e6; };
    text += fmt::format(
        "{:<8} {:<10} {:<7} {:>6.1f} {:>6} {:>6.2f} {:>7.2f} {:>9.1f} {:>6.1f} {:>9.1f}\n",
        label_of(r), quota_name(r.quota), mode_of(r), 100 * r.capacity, slots_of(r),
        100 * r.hit_rate(), per(r.copies, r.tokens), mb_a_token(r.bytes_moved),
        100 * per(r.copies_used, r.copies), mb_a_token(r.bytes_missed));
  }
  return text;
}

std::string format_layers(std::span<const SimulationResult> results) {
  std::string text = fmt::format("{:<8}", "layer");
  for (const SimulationResult& r : results) {
    text += fmt::format(" {:>15}", fmt::format("{} {:.1f} %", label_of(r), 100 * r.capacity));
  }
  text += '\n';
  const std::size_t layers = results.empty() ? 0 : results.front().layers.size();
  for (std::size_t l = 0; l < layers; ++l) {
    if (results.front().layers[l].picks == 0) continue;
    text += fmt::format("{:<8}", l);
    for (const SimulationResult& r : results) {
      const LayerResult& layer = r.layers[l];
      text += fmt::format(" {:>6} {:>6.2f} %", layer.slots, 100 * per(layer.hits, layer.picks));
    }
    text += '\n';
  }
  return text;
}

std::string format_json(std::span<const SimulationResult> results) {
  std::string json = "{\"results\": [";
  const auto out = std::back_inserter(json);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const SimulationResult& r = results[i];
    fmt::format_to(out,
                   "{}\n{{\"policy\": \"{}\", \"quota\": \"{}\", \"mode\": \"{}\", "
                   "\"capacity\": {:.6f}, \"slots\": {}, \"half_life\": {:g}, \"tokens\": {}, "
                   "\"picks\": {}, \"hits\": {}, \"hit_rate\": {:.6f}, \"copies\": {}, "
                   "\"copies_used\": {}, \"copies_wasted\": {}, \"copied_hits\": {}, "
                   "\"bytes_moved\": {}, \"bytes_missed\": {}, \"layers\": [",
                   i == 0 ? "" : ",", policy_name(r.policy), quota_name(r.quota), mode_of(r),
                   r.capacity, slots_of(r), r.half_life, r.tokens, r.picks, r.hits, r.hit_rate(),
                   r.copies, r.copies_used, r.copies_wasted, r.copied_hits, r.bytes_moved,
                   r.bytes_missed);
    for (std::size_t l = 0; l < r.layers.size(); ++l) {
      fmt::format_to(out, "{}{{\"slots\": {}, \"picks\": {}, \"hits\": {}}}", l == 0 ? "" : ", ",
                     r.layers[l].slots, r.layers[l].picks, r.layers[l].hits);
    }
    json += "]}";
  }
  json += "\n]}\n";
  return json;
}

std::string format_svg(std::span<const SimulationResult> results, std::string_view title) {
  double most = 0;
  for (const SimulationResult& r : results) most = std::max(most, r.capacity);
  most = std::max(std::ceil(most * 10) / 10, 0.1);  // whole tens of per cent
  return line_plot({.title = std::string(title),
                    .x_label = "cache, share of all experts' bytes",
                    .x_most = most,
                    .x_percent = true},
                   lines_of(results));
}

std::vector<double> mean_of_periods(std::span<const double> rates, std::size_t period) {
  std::vector<double> sums(std::min(period, rates.size()));
  std::vector<double> counts(sums.size());
  for (std::size_t i = 0; i < rates.size(); ++i) {
    sums[i % period] += rates[i];
    counts[i % period] += 1;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] /= counts[i];
  return sums;
}

std::string format_over_time(std::span<const RatesOverTime> all, std::int32_t window) {
  std::string text = fmt::format("{:<8}", "token");
  std::size_t windows = 0;
  for (const RatesOverTime& one : all) {
    text += fmt::format(" {:>15}", one.name);
    windows = std::max(windows, one.rates.size());
  }
  text += '\n';
  for (std::size_t i = 0; i < windows; ++i) {
    text += fmt::format("{:<8}", i * static_cast<std::size_t>(window));
    for (const RatesOverTime& one : all) {
      text += i < one.rates.size() ? fmt::format(" {:>13.2f} %", 100 * one.rates[i])
                                   : fmt::format(" {:>15}", "");
    }
    text += '\n';
  }
  return text;
}

std::string format_over_time_svg(std::span<const RatesOverTime> all, std::int32_t window,
                                 std::string_view title) {
  std::vector<PlotLine> lines;
  double most = window;
  for (const RatesOverTime& one : all) {
    PlotLine& line = lines.emplace_back(PlotLine{one.name, {}});
    for (std::size_t i = 0; i < one.rates.size(); ++i) {
      // In the middle of its window.
      line.points.emplace_back((static_cast<double>(i) + 0.5) * window, one.rates[i]);
    }
    most = std::max(most, static_cast<double>(one.rates.size()) * window);
  }
  return line_plot(
      {.title = std::string(title), .x_label = "tokens", .x_most = most, .x_percent = false},
      lines);
}

}  // namespace strata::core
