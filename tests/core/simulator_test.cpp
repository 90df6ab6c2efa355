#include "strata/core/simulator.hpp"

#include "strata/base/error.hpp"
#include "strata/core/line_plot.hpp"
#include "strata/core/simulator_report.hpp"
#include "strata/core/trace_synthetic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace strata::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// One layer, one list of experts a token.
Trace trace_of(const std::vector<std::vector<std::int32_t>>& tokens) {
  Trace trace;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::vector<float> weights(tokens[t].size(), 1.0F);
    trace.add({static_cast<std::int64_t>(t), 0, tokens[t], weights});
  }
  return trace;
}

SimulationOptions instant(PolicyKind kind, double capacity) {
  SimulationOptions options;
  options.policy.kind = kind;
  options.capacity = capacity;
  options.instant = true;
  return options;
}

SimulationOptions passes(PolicyKind kind, double capacity) {
  SimulationOptions options = instant(kind, capacity);
  options.instant = false;
  return options;
}

// The committed excerpt: 4 of the demo model's 12 layers (numbered 0 to 3), 64 experts, top 8, two
// texts of 512 tokens.
Trace demo_excerpt() { return Trace::load(STRATA_SOURCE_DIR "/tests/data/routing/demo.trace"); }

TEST(Simulator, LruByHand) {
  // Two slots of four experts: 0 1 | 0 hits | 2 replaces 1 | 1 misses and replaces 0 | 2 hits.
  const Trace trace = trace_of({{0}, {1}, {0}, {2}, {1}, {2}, {3}});
  const SimulationResult result = simulate(trace, instant(PolicyKind::kLru, 0.5));
  EXPECT_EQ(result.hits, 2);
  EXPECT_EQ(result.picks, 7);
  EXPECT_EQ(result.copies, 5);
  EXPECT_EQ(result.bytes_moved, 5 * kExampleBlob);
  EXPECT_EQ(result.bytes_missed, 5 * kExampleBlob);
  EXPECT_EQ(result.copies_used, 2);  // 0, and 2
  EXPECT_EQ(result.copies_wasted, 3);
  EXPECT_EQ(result.copied_hits, 2);
}

// The most hits any sequence of contents can have, by trying them all.
int best_by_search(const std::vector<std::vector<std::int32_t>>& tokens, int slots) {
  std::map<unsigned, int> best = {{0U, 0}};  // contents -> hits
  for (const auto& token : tokens) {
    unsigned asked = 0;
    for (const std::int32_t e : token) asked |= 1U << e;
    std::map<unsigned, int> next;
    for (const auto& [held, hits] : best) {
      const unsigned all = held | asked;
      for (unsigned keep = all;; keep = (keep - 1) & all) {
        if (__builtin_popcount(keep) <= slots) {
          int& value = next[keep];
          value = std::max(value, hits + __builtin_popcount(held & asked));
        }
        if (keep == 0) break;
      }
    }
    best = std::move(next);
  }
  int most = 0;
  for (const auto& [held, hits] : best) most = std::max(most, hits);
  return most;
}

TEST(Simulator, NothingBeatsTheOptimum) {
  std::mt19937 random(17);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::vector<std::int32_t>> tokens;
    for (int t = 0; t < 12; ++t) {
      const auto a = static_cast<std::int32_t>(random() % 6);
      const auto b = static_cast<std::int32_t>(random() % 5);
      tokens.push_back({a, b >= a ? b + 1 : b});
    }
    const Trace trace = trace_of(tokens);
    for (int slots = 1; slots <= 4; ++slots) {
      SimulationOptions options = instant(PolicyKind::kOptimum, slots / 6.0);
      options.experts = 6;
      EXPECT_EQ(simulate(trace, options).hits, best_by_search(tokens, slots));
    }
  }
}

TEST(Simulator, EdgesOfCapacity) {
  const Trace trace = synthetic_trace({.layers = 3, .experts = 16, .used = 4, .tokens = 200});
  for (const PolicyKind kind : {PolicyKind::kNone, PolicyKind::kFill, PolicyKind::kLru,
                                PolicyKind::kLfru, PolicyKind::kDefault, PolicyKind::kOptimum}) {
    for (const bool now : {true, false}) {
      SimulationOptions options = instant(kind, 0);
      options.instant = now;
      options.experts = 16;
      const SimulationResult none = simulate(trace, options);
      EXPECT_EQ(none.hits, 0) << policy_name(kind);
      EXPECT_EQ(none.copies, 0) << policy_name(kind);
      options.capacity = 1;
      const SimulationResult all = simulate(trace, options);
      if (kind == PolicyKind::kNone) {
        EXPECT_EQ(all.hits, 0);
      } else {
        EXPECT_LE(all.copies, 48) << policy_name(kind);  // each expert once
        EXPECT_EQ(all.copies, all.copies_used + all.copies_wasted);
        EXPECT_GT(all.hit_rate(), 0.9) << policy_name(kind);
      }
      options.capacity = 0.1;  // one slot a layer, fewer than a token asks for
      EXPECT_LT(simulate(trace, options).hit_rate(), 0.5) << policy_name(kind);
    }
  }
}

TEST(Simulator, CountsAddUp) {
  const Trace trace = synthetic_trace({.layers = 4, .experts = 32, .used = 4, .tokens = 500});
  for (const PolicyKind kind : {PolicyKind::kLru, PolicyKind::kLfu, PolicyKind::kDefault}) {
    for (const bool now : {true, false}) {
      SimulationOptions options = instant(kind, 0.3);
      options.instant = now;
      const SimulationResult r = simulate(trace, options);
      EXPECT_EQ(r.picks, trace.picks());
      EXPECT_EQ(r.copied_hits, r.hits);  // no warm start: copies serve all hits
      EXPECT_EQ(r.copies, r.copies_used + r.copies_wasted);
      EXPECT_EQ(r.bytes_missed, (r.picks - r.hits) * kExampleBlob);
      EXPECT_EQ(r.bytes_moved, r.copies * kExampleBlob);
      std::int64_t hits = 0;
      for (const LayerResult& layer : r.layers) {
        hits += layer.hits;
        EXPECT_EQ(layer.picks, 500 * 4);
      }
      EXPECT_EQ(hits, r.hits);
    }
  }
}

TEST(Simulator, ACopyServesOnlyOnceItHasLanded) {
  // The same expert at every token. The pass after token 0 orders the copy.
  const Trace trace = trace_of(std::vector<std::vector<std::int32_t>>(20, {0}));
  SimulationOptions options = passes(PolicyKind::kDefault, 1);
  options.adapt_every = 1;
  options.token_seconds = 0.01;
  EXPECT_EQ(simulate(trace, options).hits, 18);  // it lands 55 us into token 1, which has started
  options.link.link = kExampleBlob / 0.055;      // 5.5 tokens a copy
  EXPECT_EQ(simulate(trace, options).hits, 13);
}

TEST(Simulator, AProfileIsWorthTheTraceItWasMadeFrom) {
  const Trace all = demo_excerpt();
  const Trace training = all.slice(0, 512);
  const Trace trace = all.slice(512, 1024);
  const Profile profile = profile_from_counts(training.counts(64), {4, 64});
  for (const PolicyKind kind : {PolicyKind::kStatic, PolicyKind::kDefault}) {
    SimulationOptions options = passes(kind, 0.25);
    options.training = &training;
    const std::int64_t hits = simulate(trace, options).hits;
    options.training = nullptr;
    options.profile = &profile;
    EXPECT_EQ(simulate(trace, options).hits, hits);
    options.profile = nullptr;
    if (kind == PolicyKind::kDefault) {
      EXPECT_LT(simulate(trace, options).hits, hits);
    }
  }
  // A model of more layers and experts than the trace shows.
  const Profile larger = profile_from_counts(std::vector<double>(6 * 80, 1.0), {6, 80});
  SimulationOptions options = passes(PolicyKind::kStatic, 0.25);
  options.profile = &larger;
  const SimulationResult result = simulate(trace, options);
  EXPECT_EQ(result.layers.size(), 6U);
  EXPECT_EQ(result.layers[0].slots, 20);
  EXPECT_EQ(result.layers[5].slots, 0);
}

TEST(Simulator, WhatIsBeforeTheFirstTokenIsWarmUp) {
  const Trace trace = trace_of({{0}, {1}, {0}, {2}, {0}, {2}});
  SimulationOptions options = instant(PolicyKind::kLru, 2.0 / 3);
  options.first_token = 2;
  const SimulationResult r = simulate(trace, options);
  EXPECT_EQ(r.tokens, 4);
  EXPECT_EQ(r.hits, 3);    // 0, 0 and 2
  EXPECT_EQ(r.copies, 1);  // 2
  EXPECT_EQ(r.copied_hits, 1);
  EXPECT_EQ(r.copies_used + r.copies_wasted, 1);
}

TEST(Simulator, AQuotaKeepsEarlyLayersFromTakingAll) {
  // More experts in the first layers of the first tokens than there are slots.
  const Trace trace = synthetic_trace({.layers = 24, .experts = 64, .used = 6, .tokens = 400});
  SimulationOptions options = instant(PolicyKind::kFill, 0.05);
  options.quota = QuotaKind::kFirstCome;
  const double first_come = simulate(trace, options).hit_rate();
  options.quota = QuotaKind::kEqual;
  const double equal = simulate(trace, options).hit_rate();
  EXPECT_GT(simulate(trace, options).layers.back().hits, 0);
  EXPECT_GE(equal, first_come);
}

TEST(Simulator, MeaninglessOptionsAreRefused) {
  const Trace trace = trace_of({{0, 5}});
  SimulationOptions options = instant(PolicyKind::kLru, 1.5);
  EXPECT_THROW((void)simulate(trace, options), Error);
  options.capacity = 0.5;
  options.experts = 5;
  EXPECT_THROW((void)simulate(trace, options), Error);
  options.experts = 6;
  options.policy.kind = PolicyKind::kStatic;
  EXPECT_THROW((void)simulate(trace, options), Error);
  const Profile foreign = profile_from_counts(std::vector<double>(5, 1.0), {1, 5});
  options.experts = 0;
  options.profile = &foreign;
  EXPECT_THROW((void)simulate(trace, options), Error);
  const Profile right = profile_from_counts(std::vector<double>(6, 1.0), {1, 6});
  options.profile = &right;
  EXPECT_EQ(simulate(trace, options).picks, 2);
  options.training = &trace;
  EXPECT_THROW((void)simulate(trace, options), Error);
  options = instant(PolicyKind::kLru, 0.5);
  options.instant = false;
  options.adapt_every = 0;
  EXPECT_THROW((void)simulate(trace, options), Error);
}

// What the whole trace shows (docs/cache-policies.md) holds on the excerpt too, nearly: its 1024
// tokens begin with an empty cache.
TEST(Simulator, PoliciesOnARecordedTrace) {
  const Trace trace = demo_excerpt();
  EXPECT_EQ(trace.tokens(), 1024);
  EXPECT_EQ(trace.experts(), 64);
  const double capacities[] = {8.0 / 64, 16.0 / 64, 26.0 / 64, 38.0 / 64};
  const double above_lru[] = {2, 4, 4, 2};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto rate = [&](PolicyKind kind, bool now, float half_life = 32) {
      SimulationOptions options = instant(kind, capacities[i]);
      options.instant = now;
      options.policy.half_life = half_life;
      return 100 * simulate(trace, options).hit_rate();
    };
    const double lru = rate(PolicyKind::kLru, true);
    const double ours = rate(PolicyKind::kDefault, false);
    const double tuned = std::max(rate(PolicyKind::kLfu, true, 16), rate(PolicyKind::kLfu, true));
    EXPECT_GT(ours, lru + 0.8 * above_lru[i]) << capacities[i];
    EXPECT_GT(ours, tuned - 0.5) << capacities[i];
    EXPECT_GT(rate(PolicyKind::kPairs, false), ours + 0.5) << capacities[i];
    EXPECT_GT(rate(PolicyKind::kOptimum, true), tuned);
  }
}

TEST(Simulator, FollowsAChangeOfTopic) {
  // Experts 0..7 for 300 tokens, then 32..39: within 64 tokens the new ones are all there.
  std::vector<std::vector<std::int32_t>> tokens;
  std::mt19937 random(1);
  for (int t = 0; t < 600; ++t) {
    std::vector<std::int32_t> experts = {0, 1, 2, 3, 4, 5, 6, 7};
    for (auto& e : experts) e += t < 300 ? 0 : 32;
    std::shuffle(experts.begin(), experts.end(), random);
    experts.resize(4);
    tokens.push_back(experts);
  }
  SimulationOptions options = passes(PolicyKind::kDefault, 8.0 / 64);
  options.experts = 64;
  const std::vector<double> rates = hit_rate_over_time(trace_of(tokens), options, 20);
  EXPECT_GT(rates[14], 0.99);  // before the change
  EXPECT_LT(rates[15], 0.9);   // at it
  EXPECT_GT(rates[18], 0.99);  // 60 tokens after it
}

TEST(Synthetic, IsRepeatableAndWellFormed) {
  const SyntheticOptions options{.layers = 2, .experts = 20, .used = 5, .tokens = 50, .seed = 9};
  const Trace a = synthetic_trace(options);
  const Trace b = synthetic_trace(options);
  ASSERT_EQ(a.size(), 100U);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const RoutingEvent x = a[i];
    const RoutingEvent y = b[i];
    EXPECT_TRUE(std::equal(x.experts.begin(), x.experts.end(), y.experts.begin()));
    EXPECT_TRUE(std::is_sorted(x.weights.begin(), x.weights.end(), std::greater<>()));
    std::vector<std::int32_t> sorted(x.experts.begin(), x.experts.end());
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
  }
  SyntheticOptions other = options;
  other.seed = 10;
  EXPECT_NE(synthetic_trace(other).counts(20), a.counts(20));
}

TEST(Report, GivesTableJsonAndPlot) {
  const Trace trace = synthetic_trace({.layers = 2, .experts = 8, .used = 2, .tokens = 60});
  GridOptions grid;
  grid.policies = {{.kind = PolicyKind::kLru}, {.kind = PolicyKind::kDefault}};
  grid.capacities = {0.25, 0.5};
  grid.common.experts = 8;
  const std::vector<SimulationResult> results = simulate_grid(trace, grid);
  ASSERT_EQ(results.size(), 6U);
  EXPECT_EQ(results[2].policy, PolicyKind::kOptimum);
  const std::string table = format_table(results);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 8);
  EXPECT_THAT(table, HasSubstr("default  equal      passes"));
  const std::string json = format_json(results);
  EXPECT_THAT(json, HasSubstr("\"policy\": \"optimum\", \"quota\": \"equal\", \"mode\": "
                              "\"instant\", \"capacity\": 0.250000, \"slots\": 4"));
  EXPECT_EQ(std::count(json.begin(), json.end(), '{'), std::count(json.begin(), json.end(), '}'));
  const std::string svg = format_svg(results, "LRU & <ours>");
  EXPECT_THAT(svg, HasSubstr("LRU &amp; &lt;ours>"));
  EXPECT_THAT(svg, HasSubstr(">optimum</text>"));
  EXPECT_THAT(svg, HasSubstr(">default, passes</text>"));
  const std::string layers = format_layers(results);
  EXPECT_EQ(std::count(layers.begin(), layers.end(), '\n'), 3);
  EXPECT_THAT(layers, HasSubstr("default 50.0 %"));
}

TEST(Report, FollowsRatesOverTime) {
  EXPECT_THAT(mean_of_periods(std::vector<double>{0, 1, 0.5, 0.5, 0.25}, 2),
              ElementsAre(0.25, 0.75));
  EXPECT_THAT(mean_of_periods(std::vector<double>{0.5}, 4), ElementsAre(0.5));
  const RatesOverTime both[] = {{"a", {0.25, 0.5, 1}}, {"b", {0}}};
  EXPECT_EQ(format_over_time(both, 16),
            "token                  a               b\n"
            "0                25.00 %          0.00 %\n"
            "16               50.00 %                \n"
            "32              100.00 %                \n");
  EXPECT_THAT(format_over_time_svg(both, 16, "t"), HasSubstr("<title>a: 100.0 %</title>"));
}

TEST(Plot, PlacesPointsAndTellsManyLinesApart) {
  const std::vector<PlotLine> lines(9, {"x", {{0, 0}, {2, 1}}});
  const std::string svg = line_plot({.title = "t", .x_label = "x", .x_most = 2}, lines);
  EXPECT_THAT(svg, HasSubstr("M70.0 420.0 L590.0 50.0"));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray"));
  EXPECT_THAT(svg, HasSubstr(">0.5</text>"));  // steps of 0.5 up to 2
  EXPECT_THAT(svg, HasSubstr(">2</text>"));
  const std::string tokens = line_plot({.title = "t", .x_label = "x", .x_most = 512}, {});
  EXPECT_THAT(tokens, HasSubstr(">400</text>"));  // steps of 200
  EXPECT_THAT(tokens, Not(HasSubstr(">600</text>")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace strata::core
