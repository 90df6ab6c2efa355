#include "strata/core/policy.hpp"

#include "strata/core/heat.hpp"
#include "strata/core/policy_pass.hpp"
#include "strata/core/successors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace strata::core {
namespace {

using ::testing::ElementsAre;

constexpr float kNoWeights[] = {0, 0, 0, 0, 0, 0, 0, 0};

void use(Policy& policy, std::int32_t layer, const std::vector<std::int32_t>& experts) {
  policy.observe({0, layer, experts, std::span(kNoWeights).first(experts.size())});
}

std::vector<float> scores(const Policy& policy, std::int32_t layer, std::int32_t experts) {
  std::vector<float> out(static_cast<std::size_t>(experts));
  policy.scores(layer, out);
  return out;
}

// The decayed average written as its definition.
TEST(Heat, EqualsTheDefinitionOverManyRescalings) {
  constexpr float kHalfLives[] = {1, 16, 500};
  const ExpertGeometry geometry{2, 6};
  Heat heat(geometry, kHalfLives);
  std::vector<std::vector<double>> sums(3, std::vector<double>(12));
  std::vector<double> norms(3);
  std::mt19937 random(3);
  for (int token = 0; token < 3000; ++token) {
    for (std::int32_t layer = 0; layer < 2; ++layer) {
      const auto first = static_cast<std::int32_t>(random() % 6);
      const std::int32_t experts[] = {first, (first + 1 + layer) % 6};
      heat.observe(layer, experts, std::span(kNoWeights).first(2));
      for (const std::int32_t e : experts) {
        for (auto& sum : sums) sum[geometry.index(layer, e)] += 1;
      }
    }
    heat.end_token();
    for (std::size_t s = 0; s < 3; ++s) {
      norms[s] += 1;
      const double decay = std::exp2(-1.0 / kHalfLives[s]);
      if (token % 97 == 0) {
        float mix[3] = {};
        mix[s] = 1;
        std::vector<float> rates(6);
        heat.rates(1, mix, rates);
        for (std::size_t e = 0; e < 6; ++e) {
          EXPECT_NEAR(rates[e], sums[s][6 + e] / norms[s], 2e-5) << "token " << token;
        }
      }
      for (double& sum : sums[s]) sum *= decay;
      norms[s] *= decay;
    }
  }
}

TEST(Heat, WeighsAUseAndRemembersTheLast) {
  constexpr float kHalfLives[] = {8};
  constexpr float kOne[] = {1};
  Heat heat({1, 4}, kHalfLives);
  const std::int32_t experts[] = {2, 0};
  const float weights[] = {0.9F, 0.1F};
  heat.observe(0, experts, weights, 1);
  heat.end_token();
  std::vector<float> rates(4);
  heat.rates(0, kOne, rates);
  EXPECT_NEAR(rates[2], 1.8, 1e-5);
  EXPECT_NEAR(rates[0], 0.2, 1e-5);
  EXPECT_THAT(heat.last_use(0), ElementsAre(1, -1, 0, -1));
}

TEST(Heat, ASeedIsWorthItsTokens) {
  constexpr float kHalfLives[] = {64};
  constexpr float kOne[] = {1};
  Heat heat({1, 2}, kHalfLives);
  heat.seed(0, 1, 0.5F, 64);
  heat.seed_tokens(64);
  std::vector<float> rates(2);
  heat.rates(0, kOne, rates);
  EXPECT_NEAR(rates[1], 0.5, 1e-4);
  const std::int32_t experts[] = {0};
  for (int token = 0; token < 64; ++token) {
    heat.observe(0, experts, std::span(kNoWeights).first(1));
    heat.end_token();
  }
  heat.rates(0, kOne, rates);  // the seed now has a third of the weight: 1/4 of 3/4
  EXPECT_NEAR(rates[1], 0.5 / 3, 1e-3);
  EXPECT_NEAR(rates[0], 2.0 / 3, 1e-3);
}

TEST(Policy, LruOrdersByLastUse) {
  const auto lru = make_policy({.kind = PolicyKind::kLru}, {1, 4});
  use(*lru, 0, {3, 1});
  lru->end_token();
  use(*lru, 0, {0});
  lru->end_token();
  const std::vector<float> s = scores(*lru, 0, 4);
  EXPECT_GT(s[0], s[1]);
  EXPECT_GT(s[1], s[3]);
  EXPECT_EQ(s[2], kNeverUsed);
  EXPECT_EQ(lru->admission(), Admission::kAlways);
}

TEST(Policy, LfuForgetsAndLfruPrefersTheRecent) {
  const auto lfu = make_policy({.kind = PolicyKind::kLfu, .half_life = 4}, {1, 3});
  const auto lfru = make_policy({.kind = PolicyKind::kLfru, .half_life = 1000}, {1, 3});
  for (Policy* policy : {lfu.get(), lfru.get()}) {
    for (int i = 0; i < 4; ++i) {
      use(*policy, 0, {0});
      policy->end_token();
    }
    for (int i = 0; i < 3; ++i) {
      use(*policy, 0, {1});
      policy->end_token();
    }
    const std::vector<float> s = scores(*policy, 0, 3);
    EXPECT_GT(s[1], s[0]);
    EXPECT_EQ(s[2], kNeverUsed);
  }
}

TEST(Policy, StaticKeepsTheProfilesOrderWhateverHappens) {
  const Profile profile{{2, 2}, 0, {{1, 0}, {0, 1}, {0, 0}}};
  const auto fixed = make_policy({.kind = PolicyKind::kStatic}, {2, 2}, &profile);
  for (int i = 0; i < 100; ++i) use(*fixed, 1, {1});
  EXPECT_GT(scores(*fixed, 1, 2)[0], scores(*fixed, 0, 2)[1]);
  EXPECT_GT(scores(*fixed, 0, 2)[1], scores(*fixed, 0, 2)[0]);
  EXPECT_EQ(scores(*fixed, 1, 2)[1], kNeverUsed);
  EXPECT_EQ(fixed->admission(), Admission::kNever);
}

TEST(Policy, AProfileIsAPriorThatUseOverrules) {
  const Profile profile{{1, 4}, 0, {{0, 2}, {0, 0}, {0, 1}, {0, 3}}};
  for (const PolicyKind kind : {PolicyKind::kDefault, PolicyKind::kLfu, PolicyKind::kLru}) {
    const auto policy = make_policy({.kind = kind}, {1, 4}, &profile);
    std::vector<float> s = scores(*policy, 0, 4);
    EXPECT_GT(s[2], s[0]) << policy_name(kind);
    EXPECT_GT(s[0], s[1]) << policy_name(kind);
    EXPECT_GT(s[1], s[3]) << policy_name(kind);
    for (int i = 0; i < 64; ++i) {
      use(*policy, 0, {3});
      policy->end_token();
    }
    s = scores(*policy, 0, 4);
    EXPECT_EQ(std::max_element(s.begin(), s.end()) - s.begin(), 3) << policy_name(kind);
  }
}

TEST(Successors, LiftWhatFollowsAndLowerWhatDoesNot) {
  // 0 is followed by 1, 1 by 2, 2 by 0; 3 never happens.
  Successors successors({2, 4}, 0);
  for (int i = 0; i < 10'000; ++i) successors.observe(1, std::vector<std::int32_t>{i % 3});
  const std::vector<float> rates = {1.0F / 3, 1.0F / 3, 1.0F / 3, 0};
  std::vector<float> out = {0, 0, 0, 0.5F};
  successors.observe(1, std::vector<std::int32_t>{1});  // 1 after 0
  successors.add_lift(1, 0.5F, rates, out);
  EXPECT_NEAR(out[2], 0.5 * (1 - 1.0 / 3), 1e-3);
  EXPECT_NEAR(out[0], -0.5 / 3, 1e-3);
  EXPECT_NEAR(out[1], -0.5 / 3, 1e-3);
  EXPECT_FLOAT_EQ(out[3], 0.5F);
  // A layer without a choice, and an expert that nothing has followed yet, tell nothing.
  out.assign(4, 0);
  successors.add_lift(0, 0.5F, rates, out);
  EXPECT_THAT(out, ElementsAre(0, 0, 0, 0));
  Successors unsure({1, 4}, 16);
  unsure.observe(0, std::vector<std::int32_t>{3});
  unsure.add_lift(0, 0.5F, rates, out);
  EXPECT_THAT(out, ElementsAre(0, 0, 0, 0));
}

TEST(Policy, PairsKnowWhatComesNextAndWithoutPairsAreHeat) {
  PolicyOptions options{.kind = PolicyKind::kPairs};
  const auto pairs = make_policy(options, {1, 8});
  for (int i = 0; i < 1000; ++i) {  // 0 1 2 .. 6 0 1 2 ..: equal heat for all but 7
    use(*pairs, 0, {i % 7});
    pairs->end_token();
  }
  const std::vector<float> s = scores(*pairs, 0, 8);
  EXPECT_EQ(std::max_element(s.begin(), s.end()) - s.begin(), 1000 % 7);
  EXPECT_GT(s[0], 0);
  EXPECT_EQ(s[7], kNeverUsed);
  options.pairs.weight = 0;
  const auto heat = make_policy({.kind = PolicyKind::kMixture}, {1, 8});
  const auto without = make_policy(options, {1, 8});
  for (Policy* policy : {heat.get(), without.get()}) {
    for (int i = 0; i < 50; ++i) {
      use(*policy, 0, {i % 3, 3 + i % 4});
      policy->end_token();
    }
  }
  EXPECT_EQ(scores(*heat, 0, 8), scores(*without, 0, 8));
}

TEST(Policy, NamesGoBothWays) {
  for (const PolicyKind kind :
       {PolicyKind::kNone, PolicyKind::kFill, PolicyKind::kStatic, PolicyKind::kLru,
        PolicyKind::kLfu, PolicyKind::kLfru, PolicyKind::kMixture, PolicyKind::kDefault,
        PolicyKind::kPairs, PolicyKind::kOptimum}) {
    EXPECT_EQ(policy_of(policy_name(kind)), kind);
  }
  EXPECT_EQ(policy_of("LRU"), std::nullopt);
}

class PassTest : public ::testing::Test {
 protected:
  // Uses expert e of the layer `uses[e]` times, one a token.
  void heat_up(std::int32_t layer, const std::vector<int>& uses) {
    for (std::size_t e = 0; e < uses.size(); ++e) {
      for (int i = 0; i < uses[e]; ++i) use(*policy_, layer, {static_cast<std::int32_t>(e)});
    }
  }
  std::vector<std::array<std::int32_t, 3>> plan(const std::vector<std::int32_t>& quota,
                                                PassOptions options = {}) {
    std::vector<std::array<std::int32_t, 3>> found;
    for (const Swap& s : pass_.plan(*policy_, states_, quota, options)) {
      found.push_back({s.layer, s.newcomer, s.victim});
    }
    return found;
  }
  using Planned = std::array<std::int32_t, 3>;

  const ExpertGeometry geometry_{2, 4};
  std::unique_ptr<Policy> policy_ = make_policy({.kind = PolicyKind::kLfu}, geometry_);
  AdaptivePass pass_{geometry_};
  std::vector<ExpertState> states_ = std::vector<ExpertState>(8, ExpertState::kAbsent);
};

TEST_F(PassTest, FillsFreeSlotsHottestFirstAndNeverWithTheUnused) {
  heat_up(0, {1, 5, 0, 3});
  heat_up(1, {0, 0, 2, 0});
  policy_->end_token();
  EXPECT_THAT(plan({2, 3}), ElementsAre(Planned{0, 1, -1}, Planned{0, 3, -1}, Planned{1, 2, -1}));
  EXPECT_THAT(plan({2, 3}, {.max_swaps = 1}), ElementsAre(Planned{0, 1, -1}));
  EXPECT_THAT(plan({0, 0}), ElementsAre());
}

TEST_F(PassTest, ReplacesOnlyWhatEarnsItsCopy) {
  heat_up(0, {1, 5, 0, 3});
  policy_->end_token();
  states_[0] = states_[2] = ExpertState::kResident;
  // Rates of 1, 5, 0 and 3 a token against a margin of cost / horizon = 1: 5 replaces 0, 3
  // replaces 1.
  const PassOptions cheap{.swap_cost = 10, .horizon = 10};
  EXPECT_THAT(plan({2, 0}, cheap), ElementsAre(Planned{0, 1, 2}, Planned{0, 3, 0}));
  EXPECT_THAT(plan({2, 0}, {.swap_cost = 40, .horizon = 10}), ElementsAre(Planned{0, 1, 2}));
  EXPECT_THAT(plan({2, 0}, {.swap_cost = 60, .horizon = 10}), ElementsAre());
}

TEST_F(PassTest, WhatIsArrivingIsLeftAlone) {
  heat_up(0, {1, 5, 0, 3});
  policy_->end_token();
  states_[1] = ExpertState::kArriving;
  states_[2] = ExpertState::kResident;
  EXPECT_THAT(plan({2, 0}), ElementsAre(Planned{0, 3, 2}));
  states_[2] = ExpertState::kArriving;
  EXPECT_THAT(plan({2, 0}), ElementsAre());
}

TEST_F(PassTest, FillAndNeverPoliciesReplaceNothing) {
  for (const PolicyKind kind : {PolicyKind::kFill, PolicyKind::kNone}) {
    policy_ = make_policy({.kind = kind}, geometry_);
    heat_up(0, {1, 5, 0, 3});
    policy_->end_token();
    states_[0] = ExpertState::kResident;
    EXPECT_THAT(plan({1, 0}), ElementsAre()) << policy_name(kind);
    EXPECT_EQ(plan({2, 0}).size(), kind == PolicyKind::kFill ? 1U : 0U);
  }
}

// The plan by its definition: each layer's pairs, hottest with coldest, then the best of all
// layers.
std::vector<Swap> plan_by_definition(const Policy& policy, ExpertGeometry geometry,
                                     std::span<const ExpertState> states,
                                     std::span<const std::int32_t> quota,
                                     const PassOptions& options) {
  const bool rates = policy.scores_are_rates();
  const auto margin = rates ? static_cast<float>(options.swap_cost / policy.horizon()) : 0.0F;
  std::vector<Swap> all;
  for (std::int32_t layer = 0; layer < geometry.layers; ++layer) {
    if (quota[static_cast<std::size_t>(layer)] == 0) continue;
    const std::vector<float> score = scores(policy, layer, geometry.experts);
    std::vector<std::pair<float, std::int32_t>> coming;  // minus the score, so that sorting works
    std::vector<std::pair<float, std::int32_t>> going;
    std::int32_t free = quota[static_cast<std::size_t>(layer)];
    for (std::int32_t e = 0; e < geometry.experts; ++e) {
      const ExpertState state = states[geometry.index(layer, e)];
      const float s = score[static_cast<std::size_t>(e)];
      if (state == ExpertState::kAbsent && s > kNeverUsed) coming.emplace_back(-s, e);
      if (state == ExpertState::kResident) going.emplace_back(rates ? std::max(s, 0.0F) : s, e);
      if (state != ExpertState::kAbsent) --free;
    }
    std::sort(coming.begin(), coming.end());
    std::sort(going.begin(), going.end());
    std::size_t victim = 0;
    for (const auto& [minus, e] : coming) {
      if (free-- > 0) {
        all.push_back({layer, e, -1, -minus});
      } else if (victim < going.size() && -minus - going[victim].first > margin) {
        all.push_back({layer, e, going[victim].second, -minus - going[victim].first});
        ++victim;
      } else {
        break;
      }
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Swap& a, const Swap& b) {
    if ((a.victim < 0) != (b.victim < 0)) return a.victim < 0;
    return a.gain != b.gain ? a.gain > b.gain
                            : std::tie(a.layer, a.newcomer) < std::tie(b.layer, b.newcomer);
  });
  all.resize(std::min(all.size(), static_cast<std::size_t>(options.max_swaps)));
  return all;
}

// With layers long enough for all of the shortcuts, and few and many swaps allowed.
TEST(Pass, IsWhatItsDefinitionSays) {
  std::mt19937 random(5);
  const ExpertGeometry geometry{6, 300};
  AdaptivePass pass(geometry);
  std::size_t made = 0;
  for (int round = 0; round < 90; ++round) {
    const PolicyKind kinds[] = {PolicyKind::kDefault, PolicyKind::kLru, PolicyKind::kPairs};
    const auto policy = make_policy({.kind = kinds[round % 3]}, geometry);
    for (int i = 0; i < 100; ++i) {
      for (std::int32_t layer = 0; layer < geometry.layers; ++layer) {
        const auto e = static_cast<std::int32_t>(random() % 290);
        use(*policy, layer, {e, e + 3, e + 9});
      }
      policy->end_token();
    }
    // Mostly absent, mostly resident, or even.
    std::vector<ExpertState> states;
    const std::vector<double> weights[] = {{8, 1, 1}, {1, 1, 8}, {1, 1, 1}};
    std::discrete_distribution<int> state(weights[round % 9 / 3].begin(),
                                          weights[round % 9 / 3].end());
    for (std::size_t i = 0; i < geometry.pairs(); ++i) {
      states.push_back(static_cast<ExpertState>(state(random)));
    }
    const std::vector<std::int32_t> quota = {0, 4, 60, 100, 250, 300};
    const PassOptions options{.max_swaps = 1 << (random() % 12)};
    const auto expected = plan_by_definition(*policy, geometry, states, quota, options);
    const auto plan = pass.plan(*policy, states, quota, options);
    ASSERT_EQ(plan.size(), expected.size()) << "round " << round;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      EXPECT_EQ(plan[i].layer, expected[i].layer);
      EXPECT_EQ(plan[i].newcomer, expected[i].newcomer);
      EXPECT_EQ(plan[i].victim, expected[i].victim);
      EXPECT_EQ(plan[i].gain, expected[i].gain);
    }
    made += plan.size();
  }
  EXPECT_GT(made, 5000U);
}

// Whatever the states, a plan can be carried out.
TEST(Pass, RandomPlansHold) {
  std::mt19937 random(11);
  const ExpertGeometry geometry{3, 24};
  AdaptivePass pass(geometry);
  for (int round = 0; round < 400; ++round) {
    const PolicyKind kind = round % 2 == 0 ? PolicyKind::kDefault : PolicyKind::kLru;
    const auto policy = make_policy({.kind = kind}, geometry);
    for (int i = 0; i < 30; ++i) {
      for (std::int32_t layer = 0; layer < 3; ++layer) {
        use(*policy, layer, {static_cast<std::int32_t>(random() % 24)});
      }
      policy->end_token();
    }
    std::vector<ExpertState> states;
    std::vector<std::int32_t> held(3);
    for (std::size_t i = 0; i < geometry.pairs(); ++i) {
      states.push_back(static_cast<ExpertState>(random() % 3));
      if (states.back() != ExpertState::kAbsent) ++held[i / 24];
    }
    const std::vector<std::int32_t> quota = {12, 16, 24};
    const PassOptions options{.max_swaps = static_cast<std::int32_t>(random() % 20)};
    std::set<std::pair<std::int32_t, std::int32_t>> touched;
    const auto plan = pass.plan(*policy, states, quota, options);
    EXPECT_LE(plan.size(), static_cast<std::size_t>(options.max_swaps));
    for (const Swap& swap : plan) {
      EXPECT_EQ(states[geometry.index(swap.layer, swap.newcomer)], ExpertState::kAbsent);
      EXPECT_TRUE(touched.insert({swap.layer, swap.newcomer}).second);
      if (swap.victim < 0) {
        EXPECT_LE(++held[static_cast<std::size_t>(swap.layer)],
                  quota[static_cast<std::size_t>(swap.layer)]);
      } else {
        EXPECT_EQ(states[geometry.index(swap.layer, swap.victim)], ExpertState::kResident);
        EXPECT_TRUE(touched.insert({swap.layer, swap.victim}).second);
        EXPECT_GT(swap.gain, 0);
      }
    }
  }
}

TEST(LinkModel, PricesACopyInMisses) {
  // A copy takes 1/25 s a GB and half of that from the CPU; a hit saves 1/50 - 1/500.
  const LinkModel link{.link = 25e9, .slow = 50e9, .fast = 500e9};
  EXPECT_NEAR(link.swap_cost(0.5), 0.02 / 0.018, 1e-9);
}

}  // namespace
}  // namespace strata::core
