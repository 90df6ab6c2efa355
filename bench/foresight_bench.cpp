// What knowing more than the past is worth to an expert cache, in hit rate and copies:
//   foresight_bench TRACE [IDS.npy]
// TRACE is a routing trace of texts of 512 tokens, IDS.npy the i4 ids of its tokens. Scores are
// linear in what is known, fitted on the first half of the trace and judged on the second, with the
// engine's own passes: one after every token, whose copies have landed before the next.
#include "strata/core/heat.hpp"
#include "strata/core/policy.hpp"
#include "strata/core/policy_pass.hpp"
#include "strata/core/successors.hpp"
#include "strata/core/trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace strata::core {
namespace {

constexpr std::int64_t kTextTokens = 512;
constexpr double kCapacities[] = {0.125, 0.25, 0.40625, 0.59375};

// A trace's choices, by token and layer.
class Choices {
 public:
  explicit Choices(const Trace& trace)
      : geometry_{trace.layers(), trace.experts()}, tokens_(trace.tokens()) {
    chosen_.resize(static_cast<std::size_t>(tokens_ * geometry_.layers));
    for (std::size_t i = 0; i < trace.size(); ++i) {
      const RoutingEvent event = trace[i];
      chosen_[at(event.token, event.layer)].assign(event.experts.begin(), event.experts.end());
    }
  }
  [[nodiscard]] const std::vector<std::int32_t>& of(std::int64_t token, std::int32_t layer) const {
    return chosen_[at(token, layer)];
  }
  [[nodiscard]] const ExpertGeometry& geometry() const { return geometry_; }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }

 private:
  [[nodiscard]] std::size_t at(std::int64_t token, std::int32_t layer) const {
    return static_cast<std::size_t>(token * geometry_.layers + layer);
  }
  ExpertGeometry geometry_;
  std::int64_t tokens_;
  std::vector<std::vector<std::int32_t>> chosen_;  // [tokens][layers]
};

// One thing that is known of every expert after a token, as a number about its next uses.
struct Feature {
  virtual ~Feature() = default;
  virtual void observe(std::int64_t token) = 0;
  virtual void values(std::int32_t layer, std::span<float> out) const = 0;
};

struct Rate final : Feature {
  Rate(const Choices& c, float half_life)
      : choices(c), heat(c.geometry(), std::array<float, 1>{half_life}) {}
  void observe(std::int64_t token) override {
    for (std::int32_t l = 0; l < choices.geometry().layers; ++l) {
      heat.observe(l, choices.of(token, l), {});
    }
    heat.end_token();
  }
  void values(std::int32_t layer, std::span<float> out) const override {
    heat.rates(layer, std::array<float, 1>{1}, out);
  }
  const Choices& choices;
  Heat heat;
};

// How much more often an expert is chosen after what `key` says than at its own rate. Learned
// while running: counts by key, which is a small number for each token and layer.
struct Lift final : Feature {
  // The keys known once `token` is over, for the choice to come.
  using Keys = std::function<void(std::int64_t token, std::int32_t layer, std::vector<int>& out)>;
  Lift(const Choices& c, Keys k) : choices(c), keys(std::move(k)), rate(c, 768) {
    counts.resize(static_cast<std::size_t>(c.geometry().layers));
  }
  void observe(std::int64_t token) override {
    std::vector<int> known;
    for (std::int32_t l = 0; l < choices.geometry().layers; ++l) {
      if (token > 0) {
        keys(token - 1, l, known);
        for (const int key : known) learn(l, key, choices.of(token, l));
      }
    }
    rate.observe(token);
    now = token;
  }
  void learn(std::int32_t layer, int key, const std::vector<std::int32_t>& chosen) {
    Row& row = counts[static_cast<std::size_t>(layer)][key];
    row.followed.resize(static_cast<std::size_t>(choices.geometry().experts));
    row.uses += 1;
    for (const std::int32_t e : chosen) row.followed[static_cast<std::size_t>(e)] += 1;
  }
  void values(std::int32_t layer, std::span<float> out) const override {
    constexpr float kPrior = 4;
    std::vector<float> base(out.size());
    rate.values(layer, base);
    std::fill(out.begin(), out.end(), 0.0F);
    std::vector<int> known;
    if (now + 1 < choices.tokens()) keys(now, layer, known);
    for (const int key : known) {
      const auto found = counts[static_cast<std::size_t>(layer)].find(key);
      if (found == counts[static_cast<std::size_t>(layer)].end()) continue;
      const Row& row = found->second;
      const float scale = 1 / (static_cast<float>(known.size()) * (row.uses + kPrior));
      for (std::size_t e = 0; e < out.size(); ++e) {
        out[e] += scale * (row.followed[e] - row.uses * base[e]);
      }
    }
  }
  struct Row {
    float uses = 0;
    std::vector<float> followed;
  };
  const Choices& choices;
  Keys keys;
  Rate rate;
  std::vector<std::unordered_map<int, Row>> counts;  // [layers]
  std::int64_t now = 0;
};

using Features = std::vector<std::unique_ptr<Feature>>;

// Scores as a weighted sum of features.
class LinearPolicy final : public Policy {
 public:
  LinearPolicy(const Features& features, std::vector<double> weights)
      : features_(features), weights_(std::move(weights)) {}
  void observe(const RoutingEvent&) noexcept override {}
  void end_token() noexcept override {}
  void scores(std::int32_t layer, std::span<float> out) const noexcept override {
    std::vector<float> value(out.size());
    std::fill(out.begin(), out.end(), static_cast<float>(weights_.back()));
    for (std::size_t f = 0; f < features_.size(); ++f) {
      features_[f]->values(layer, value);
      for (std::size_t e = 0; e < out.size(); ++e) {
        out[e] += static_cast<float>(weights_[f]) * value[e];
      }
    }
    for (float& score : out) score = std::max(score, 1e-6F);
  }
  [[nodiscard]] Admission admission() const noexcept override { return Admission::kIfBetter; }
  [[nodiscard]] bool scores_are_rates() const noexcept override { return true; }

 private:
  const Features& features_;
  std::vector<double> weights_;  // [features], and a constant
};

// Least squares by the normal equations, which are few.
std::vector<double> solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    a[i][i] *= 1 + 1e-9;
    for (std::size_t r = i + 1; r < n; ++r) {
      const double factor = a[r][i] / a[i][i];
      for (std::size_t j = i; j < n; ++j) a[r][j] -= factor * a[i][j];
      b[r] -= factor * b[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = i + 1; j < n; ++j) b[i] -= a[i][j] * b[j];
    b[i] /= a[i][i];
  }
  return b;
}

// Fits the mean use of the next `ahead` tokens, on every third token of the first half.
std::vector<double> fit(const Choices& choices, Features& features, std::int64_t ahead) {
  const auto experts = static_cast<std::size_t>(choices.geometry().experts);
  const std::size_t n = features.size() + 1;
  std::vector<std::vector<double>> a(n, std::vector<double>(n));
  std::vector<double> b(n);
  std::vector<std::vector<float>> x(n, std::vector<float>(experts, 1));
  std::vector<double> y(experts);
  for (std::int64_t token = 0; token < choices.tokens() / 2; ++token) {
    for (const auto& feature : features) feature->observe(token);
    if (token < 64 || token % 3 != 0) continue;
    for (std::int32_t l = 0; l < choices.geometry().layers; ++l) {
      for (std::size_t f = 0; f + 1 < n; ++f) features[f]->values(l, x[f]);
      std::fill(y.begin(), y.end(), 0.0);
      for (std::int64_t next = token + 1; next <= token + ahead; ++next) {
        for (const std::int32_t e : choices.of(next, l)) {
          y[static_cast<std::size_t>(e)] += 1 / static_cast<double>(ahead);
        }
      }
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t e = 0; e < experts; ++e) {
          b[i] += x[i][e] * y[e];
          for (std::size_t j = 0; j < n; ++j) a[i][j] += x[i][e] * x[j][e];
        }
      }
    }
  }
  return solve(std::move(a), std::move(b));
}

struct Outcome {
  double hit_rate;
  double copies;  // a token
};

// A cache of equal quotas over tokens [first, last); copies land before the next token.
class Cache {
 public:
  Cache(ExpertGeometry g, double capacity)
      : geometry_(g),
        states_(g.pairs(), ExpertState::kAbsent),
        quota_(static_cast<std::size_t>(g.layers),
               static_cast<std::int32_t>(std::lround(capacity * g.experts))),
        planner_(g) {}
  std::int64_t hits(const Choices& choices, std::int64_t token) const {
    std::int64_t hits = 0;
    for (std::int32_t l = 0; l < geometry_.layers; ++l) {
      for (const std::int32_t e : choices.of(token, l)) {
        hits += states_[geometry_.index(l, e)] == ExpertState::kResident ? 1 : 0;
      }
    }
    return hits;
  }
  std::size_t pass(const Policy& policy, const PassOptions& options) {
    const auto plan = planner_.plan(policy, states_, quota_, options);
    for (const Swap& swap : plan) {
      if (swap.victim >= 0)
        states_[geometry_.index(swap.layer, swap.victim)] = ExpertState::kAbsent;
      states_[geometry_.index(swap.layer, swap.newcomer)] = ExpertState::kResident;
    }
    return plan.size();
  }

 private:
  ExpertGeometry geometry_;
  std::vector<ExpertState> states_;
  std::vector<std::int32_t> quota_;
  AdaptivePass planner_;
};

std::int64_t picks(const Choices& choices, std::int64_t token) {
  std::int64_t sum = 0;
  for (std::int32_t l = 0; l < choices.geometry().layers; ++l) {
    sum += static_cast<std::int64_t>(choices.of(token, l).size());
  }
  return sum;
}

// The second half of the trace, all capacities side by side.
std::vector<Outcome> judge(const Choices& choices, Features& features,
                           const std::vector<double>& weights, double horizon) {
  const LinearPolicy policy(features, weights);
  const PassOptions options{.swap_cost = LinkModel{}.swap_cost(), .horizon = horizon};
  std::vector<Cache> caches;
  for (const double capacity : kCapacities) caches.emplace_back(choices.geometry(), capacity);
  std::vector<Outcome> sums(caches.size());
  const std::int64_t half = choices.tokens() / 2;
  const std::int64_t warm = half + 64;
  double asked = 0;
  for (std::int64_t token = half; token < choices.tokens(); ++token) {
    if (token >= warm) asked += static_cast<double>(picks(choices, token));
    for (const auto& feature : features) feature->observe(token);
    for (std::size_t i = 0; i < caches.size(); ++i) {
      const auto hits = static_cast<double>(caches[i].hits(choices, token));
      const auto copies = static_cast<double>(caches[i].pass(policy, options));
      if (token < warm) continue;
      sums[i].hit_rate += hits;
      sums[i].copies += copies;
    }
  }
  for (Outcome& sum : sums) {
    sum.hit_rate *= 100 / asked;
    sum.copies /= static_cast<double>(choices.tokens() - warm);
  }
  return sums;
}

void print(const std::string& name, const std::vector<Outcome>& outcomes) {
  std::printf("%-44s", name.c_str());
  for (const Outcome& o : outcomes) std::printf(" %6.2f", o.hit_rate);
  std::printf("  ");
  for (const Outcome& o : outcomes) std::printf(" %6.2f", o.copies);
  std::printf("\n");
  std::fflush(stdout);
}

// The ids of an .npy file of little-endian i4, which are the last bytes of it.
std::vector<std::int32_t> read_ids(const char* path, std::int64_t count) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  const auto bytes = static_cast<std::streamoff>(ids.size() * sizeof ids[0]);
  file.seekg(-bytes, std::ios::end);
  if (!file.read(reinterpret_cast<char*>(ids.data()), bytes)) {
    std::fprintf(stderr, "%s: no %lld ids\n", path, static_cast<long long>(count));
    std::exit(3);
  }
  return ids;
}

// What lifts can be known by, by name.
struct Knowledge {
  const char* name;
  std::vector<Lift::Keys> keys;
  std::int64_t ahead;  // tokens that it tells something about
};

void study_knowledge(const Choices& choices, const std::vector<std::int32_t>& ids) {
  const Lift::Keys before = [&](std::int64_t token, std::int32_t layer, std::vector<int>& out) {
    const auto& chosen = choices.of(token, layer);
    out.assign(chosen.begin(), chosen.end());
  };
  const Lift::Keys above = [&](std::int64_t token, std::int32_t layer, std::vector<int>& out) {
    out.clear();
    if (layer == 0) return;
    const auto& chosen = choices.of(token + 1, layer - 1);
    out.assign(chosen.begin(), chosen.end());
  };
  const Lift::Keys next_id = [&](std::int64_t token, std::int32_t, std::vector<int>& out) {
    out.assign(1, ids[static_cast<std::size_t>(token) + 1]);
  };
  std::vector<Knowledge> all = {{"history", {}, 24},
                                {"+ the layer's latest choice", {before}, 24},
                                {"+ the same, for the next 8 tokens", {before}, 8},
                                {"+ the layer before, at the same token", {above}, 1}};
  if (!ids.empty()) {
    all.push_back({"+ the next token's id", {next_id}, 1});
    all.push_back({"+ the id and the layer before", {next_id, above}, 1});
  }
  std::printf("%-44s %27s   %27s\n%-44s", "second half of the text, hit rate in %", "hit rate",
              "copies a token", "what is known; horizon");
  for (int i = 0; i < 2; ++i) {
    for (const double capacity : kCapacities) std::printf(" %5.1f%%", 100 * capacity);
    std::printf("  ");
  }
  std::printf("\n");
  for (const Knowledge& what : all) {
    for (const double horizon : {64.0, 16.0}) {
      Features features;
      for (const float half_life : {2.0F, 6.0F, 24.0F, 96.0F, 768.0F}) {
        features.push_back(std::make_unique<Rate>(choices, half_life));
      }
      for (const auto& keys : what.keys) features.push_back(std::make_unique<Lift>(choices, keys));
      const std::vector<double> weights = fit(choices, features, what.ahead);
      char name[64];
      std::snprintf(name, sizeof name, "%s; %g", what.name, horizon);
      print(name, judge(choices, features, weights, horizon));
    }
  }
}

void observe(Policy& policy, const Choices& choices, std::int64_t token) {
  for (std::int32_t l = 0; l < choices.geometry().layers; ++l) {
    policy.observe({token, l, choices.of(token, l), {}});
  }
  policy.end_token();
}

// Each text from an empty cache: its first half is a prompt, hits count in the second. A policy
// that has seen the prompt's choices against one that has not.
void study_prompts(const Choices& choices) {
  std::printf("\n%-44s %27s   %27s\n", "answers after a prompt of 256 tokens", "first 32 tokens",
              "first 256 tokens");
  for (const bool seen : {false, true}) {
    std::vector<Outcome> early(std::size(kCapacities));
    std::vector<double> late(early.size());
    double asked_early = 0;
    double asked_late = 0;
    for (std::int64_t text = 0; text + kTextTokens <= choices.tokens(); text += kTextTokens) {
      const auto policy = make_policy({.kind = PolicyKind::kMixture}, choices.geometry());
      std::vector<Cache> caches;
      for (const double capacity : kCapacities) caches.emplace_back(choices.geometry(), capacity);
      for (std::int64_t token = text; token < text + kTextTokens; ++token) {
        const std::int64_t answered = token - text - kTextTokens / 2;
        if (answered >= 0) asked_late += static_cast<double>(picks(choices, token));
        if (answered >= 0 && answered < 32) {
          asked_early += static_cast<double>(picks(choices, token));
        }
        if (seen || answered >= 0) observe(*policy, choices, token);
        for (std::size_t i = 0; i < caches.size(); ++i) {
          const auto hits = static_cast<double>(caches[i].hits(choices, token));
          if (answered >= 0) late[i] += hits;
          if (answered >= 0 && answered < 32) early[i].hit_rate += hits;
          // All of the prompt's copies are made at its end.
          const std::int32_t swaps = answered == -1 ? 1 << 20 : 96;
          if (answered >= -1) {
            caches[i].pass(*policy, {.max_swaps = swaps, .swap_cost = LinkModel{}.swap_cost()});
          }
        }
      }
    }
    std::printf("%-44s", seen ? "its choices are observed" : "its choices are ignored");
    for (const Outcome& o : early) std::printf(" %6.2f", 100 * o.hit_rate / asked_early);
    std::printf("  ");
    for (const double hits : late) std::printf(" %6.2f", 100 * hits / asked_late);
    std::printf("\n");
  }
}

}  // namespace
}  // namespace strata::core

int main(int argc, char** argv) {
  using namespace strata::core;
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: foresight_bench TRACE [IDS.npy]\n");
    return 2;
  }
  const Trace trace = Trace::load(argv[1]);
  const Choices choices(trace);
  std::vector<std::int32_t> ids;
  if (argc == 3) ids = read_ids(argv[2], trace.tokens());
  study_knowledge(choices, ids);
  study_prompts(choices);
  return 0;
}
