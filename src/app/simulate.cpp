// strata simulate: what caches of several sizes and policies would have hit on a routing trace.
#include "src/app/command.hpp"
#include "src/app/report.hpp"
#include "src/app/simulate_options.hpp"
#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"
#include "strata/core/simulator_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace strata::app {
namespace {

using core::SimulationOptions;
using core::SimulationResult;
using nlohmann::ordered_json;

constexpr const char* kSimulateExamples = R"(
Examples:
  strata run model.gguf -f text.txt --raw --dump-routing text.trace
  strata simulate text.trace --plot hits.svg
  strata simulate text.trace --model model.gguf --cache 25% --cache 16 --per-layer
  strata simulate text.trace --policy lru --policy lfu:16 --policy default --admission both
  strata simulate new.trace --profile model.strp --policy static --policy default --quota marginal
  strata simulate text.trace --train-split 0.5       starts from what the first half shows
  strata simulate story.trace code.trace --over-time 16 --plot change-of-topic.svg
  strata simulate --synthetic 2000 --cache 8         no trace at hand: a large model's, made up
  strata simulate --synthetic 512 --seed 1 --seed 2 --over-time 8

Policies and passes are the engine's own; the arena and the link are simulated. The optimum knows
the future, admits at once and for free, and starts from the same contents: what no policy can
beat. "first-come" quotas are one pool for all layers, and have no optimum here.

Copies and the bytes moved and missed are those of a token; "useful" is the share of copies that
served a hit before they left.)";

std::vector<SimulationResult> grid_results(const SimulateInput& input) {
  std::vector<SimulationResult> all;
  for (std::size_t i = 0; i < input.admissions.size(); ++i) {
    core::GridOptions grid = input.grid;
    grid.common.instant = input.admissions[i];
    for (SimulationResult& result : core::simulate_grid(input.trace, grid)) {
      // The optimum is the same whatever the admission of the others.
      const bool last = i + 1 == input.admissions.size();
      if (result.policy != core::PolicyKind::kOptimum || last) all.push_back(std::move(result));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.quota != b.quota ? a.quota < b.quota : a.capacity < b.capacity;
  });
  return all;
}

// Of the layers that have experts.
std::size_t layers_with_experts(const core::Trace& trace) {
  std::vector<bool> seen(static_cast<std::size_t>(trace.layers()));
  for (std::size_t i = 0; i < trace.size(); ++i) {
    seen[static_cast<std::size_t>(trace[i].layer)] = true;
  }
  return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), true));
}

std::string trace_line(const SimulateInput& input) {
  const core::Trace& trace = input.trace;
  return fmt::format("{} tokens, {} layers x {} experts, {:.4g} choices a token", trace.tokens(),
                     layers_with_experts(trace), input.grid.common.experts,
                     static_cast<double>(trace.picks()) / static_cast<double>(trace.tokens()));
}

ordered_json trace_json(const SimulateInput& input) {
  return {{"tokens", input.trace.tokens()},
          {"layers", layers_with_experts(input.trace)},
          {"experts", input.grid.common.experts},
          {"choices", input.trace.picks()}};
}

void print_grid(const SimulateFlags& flags, const SimulateInput& input, Console& console) {
  const std::vector<SimulationResult> results = grid_results(input);
  if (!flags.plot.empty()) {
    write_atomically(flags.plot, core::format_svg(results, trace_line(input)));
  }
  if (flags.json) {
    ordered_json json = {{"trace", trace_json(input)}};
    json.update(ordered_json::parse(core::format_json(results)));
    console.out.write(json_line(json));
    return;
  }
  console.out.print("{}\n\n{}", trace_line(input), core::format_table(results));
  if (flags.per_layer) console.out.print("\n{}", core::format_layers(results));
}

// Each combination's hit rate over time; the optimum has no passes to follow and is left out.
std::vector<core::RatesOverTime> rates_over_time(const SimulateFlags& flags,
                                                 const SimulateInput& input) {
  std::vector<core::RatesOverTime> all;
  for (const bool instant : input.admissions) {
    for (const core::QuotaKind quota : input.grid.quotas) {
      for (const double capacity : input.grid.capacities) {
        for (const core::PolicyOptions& policy : input.grid.policies) {
          SimulationOptions one = input.grid.common;
          one.instant = instant;
          one.quota = quota;
          one.capacity = capacity;
          one.policy = policy;
          std::string name = fmt::format(
              "{} {:.4g} %", core::policy_label(policy.kind, policy.half_life), 100 * capacity);
          if (input.admissions.size() > 1) name += instant ? ", instant" : ", passes";
          if (input.grid.quotas.size() > 1) name += fmt::format(", {}", core::quota_name(quota));
          std::vector<double> rates = core::hit_rate_over_time(input.trace, one, flags.over_time);
          const auto skipped = std::min<std::size_t>(
              rates.size(), static_cast<std::size_t>(flags.skip / flags.over_time));
          rates.erase(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(skipped));
          if (flags.period != 0) {
            rates = core::mean_of_periods(rates,
                                          static_cast<std::size_t>(flags.period / flags.over_time));
          }
          all.push_back({std::move(name), std::move(rates)});
        }
      }
    }
  }
  return all;
}

void print_over_time(const SimulateFlags& flags, const SimulateInput& input, Console& console) {
  for (const std::int64_t tokens : {std::int64_t{flags.period}, flags.skip}) {
    if (tokens % flags.over_time == 0) continue;
    fail(ErrorKind::kUsage, "--period and --skip are multiples of --over-time {}", flags.over_time);
  }
  const std::vector<core::RatesOverTime> all = rates_over_time(flags, input);
  if (!flags.plot.empty()) {
    write_atomically(flags.plot,
                     core::format_over_time_svg(all, flags.over_time, trace_line(input)));
  }
  if (flags.json) {
    ordered_json json = {{"trace", trace_json(input)}, {"window", flags.over_time}};
    for (const core::RatesOverTime& one : all) {
      json["over_time"].push_back({{"name", one.name}, {"hit_rates", one.rates}});
    }
    console.out.write(json_line(json));
    return;
  }
  console.out.print("{}\n\n{}", trace_line(input), core::format_over_time(all, flags.over_time));
}

int run(const SimulateFlags& flags, Console& console) {
  const SimulateInput input(flags);
  if (flags.over_time != 0) {
    print_over_time(flags, input, console);
  } else {
    print_grid(flags, input, console);
  }
  return 0;
}

}  // namespace

Command add_simulate(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("simulate", "Tells what expert caches would hit on a routing trace.");
  app->footer(kSimulateExamples);
  const auto flags = std::make_shared<SimulateFlags>();
  flags->add(*app);
  return {app, [flags](Console& console) { return run(*flags, console); }};
}

}  // namespace strata::app
