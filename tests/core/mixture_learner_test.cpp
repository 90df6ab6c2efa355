#include "strata/core/mixture_learner.hpp"

#include "strata/core/simulator.hpp"
#include "strata/core/trace_synthetic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

namespace strata::core {
namespace {

using ::testing::ElementsAre;

constexpr std::array<float, 3> kHalfLives = {4, 32, 256};
constexpr std::array<float, 3> kStart = {0.3F, 0.4F, 0.3F};
constexpr std::array<float, 2> kNoWeights = {0, 0};

// Heat and learner over the same choices.
struct Lesson {
  Lesson(ExpertGeometry geometry, const std::vector<std::int32_t>& slots)
      : heat(geometry, kHalfLives), learner(geometry, kStart, slots) {}
  void use(std::int32_t layer, std::array<std::int32_t, 2> experts) {
    heat.observe(layer, experts, kNoWeights);
    learner.observe(layer, experts);
  }
  void end_token() {
    heat.end_token();
    learner.end_token(heat);
  }
  Heat heat;
  MixtureLearner learner;
};

// Two experts of 10, some much likelier than others, the likely ones drifting.
std::array<std::int32_t, 2> draw(std::mt19937& random, int token) {
  const auto a = static_cast<std::int32_t>((random() % 4 + static_cast<unsigned>(token) / 90) % 10);
  const auto b = static_cast<std::int32_t>(random() % 9);
  return {a, b >= a ? b + 1 : b};
}

TEST(MixtureLearner, SolvesTheRegressionOfItsDefinition) {
  constexpr std::int32_t kExperts = 10;
  constexpr std::int32_t kSlots = 4;
  Lesson lesson({1, kExperts}, {kSlots});
  struct Sample {
    std::array<std::vector<float>, 4> terms;
    std::vector<double> weights;
    double bar;
  };
  std::vector<Sample> samples;  // by token
  std::vector<std::vector<double>> products(4, std::vector<double>(4));
  std::vector<double> targets(4);
  const double decay = std::exp2(-1.0 / MixtureLearner::kHalfLife);
  std::mt19937 random(5);
  for (int token = 0; token < 600; ++token) {
    const auto used = draw(random, token);
    lesson.use(0, used);
    if (token >= MixtureLearner::kLag) {
      const Sample& s = samples[static_cast<std::size_t>(token - MixtureLearner::kLag)];
      for (std::size_t e = 0; e < kExperts && s.bar > 0; ++e) {  // at first few have been used
        const bool use = std::ranges::count(used, static_cast<std::int32_t>(e)) > 0;
        for (std::size_t i = 0; i < 4; ++i) {
          const double weighted = s.weights[e] / s.bar * double{s.terms[i][e]};
          targets[i] += use ? weighted : 0;
          for (std::size_t j = 0; j < 4; ++j) products[i][j] += weighted * double{s.terms[j][e]};
        }
      }
    }
    for (double& x : targets) x *= decay;
    for (auto& of : products) {
      for (double& x : of) x *= decay;
    }
    lesson.end_token();
    // The rates that the learner saw were mixed by the weights it had then.
    Sample s{{}, {}, 0};
    std::vector<float> mixed(kExperts);
    lesson.heat.rates(0, lesson.learner.weights(), mixed);
    std::vector<float> sorted = mixed;
    std::ranges::sort(sorted, std::greater<>());
    s.bar = double{sorted[kSlots - 1]};
    for (std::size_t i = 0; i < 3; ++i) {
      std::array<float, 3> one = {};
      one[i] = 1;
      s.terms[i].resize(kExperts);
      lesson.heat.rates(0, one, s.terms[i]);
    }
    s.terms[3].assign(kExperts, static_cast<float>(s.bar));
    for (const float rate : mixed) {
      const double x = double{rate} / s.bar;
      s.weights.push_back(std::pow(2 * x / (1 + x * x), 4));
    }
    samples.push_back(std::move(s));
  }
  // At the minimum over weights of at least 0, the error rises or stays whichever way one is moved.
  for (std::size_t i = 0; i < 3; ++i) {
    products[i][i] += 1 / double{MixtureLearner::kPriorVariance};
    targets[i] += double{kStart[i]} / double{MixtureLearner::kPriorVariance};
  }
  products[3][3] += 1;
  const std::span<const float> w = lesson.learner.weights();
  double constant = targets[3];
  for (std::size_t j = 0; j < 3; ++j) constant -= products[3][j] * double{w[j]};
  constant /= products[3][3];
  for (std::size_t i = 0; i < 3; ++i) {
    double slope = products[i][3] * constant - targets[i];
    for (std::size_t j = 0; j < 3; ++j) slope += products[i][j] * double{w[j]};
    const double off = slope / products[i][i];  // how far this weight alone is from its best
    if (w[i] > 0) {
      EXPECT_NEAR(off, 0, 2e-3) << "half-life " << kHalfLives[i];
    } else {
      EXPECT_GT(off, -2e-3) << "half-life " << kHalfLives[i];
    }
    EXPECT_GT(std::abs(w[i] - kStart[i]), 0.01) << "nothing learned";
  }
}

TEST(MixtureLearner, FindsHowLongTheRoutersHabitsLast) {
  std::mt19937 random(1);
  // Of 64 experts 8 are used ten times as often as the others: for ever, or for 12 tokens.
  const auto learned = [&](int lasts) {
    Lesson lesson({2, 64}, {8, 8});
    std::array<std::int32_t, 2> hot = {0, 0};
    for (int token = 0; token < 6000; ++token) {
      for (std::int32_t layer = 0; layer < 2; ++layer) {
        if (lasts > 0 && token % lasts == 0) {
          hot[static_cast<std::size_t>(layer)] = static_cast<std::int32_t>(random() % 64);
        }
        std::array<std::int32_t, 2> used;
        for (std::int32_t& expert : used) {
          const bool common = random() % 10 < 6;
          const auto offset = static_cast<std::int32_t>(random() % (common ? 8 : 64));
          expert = (hot[static_cast<std::size_t>(layer)] + offset) % 64;
        }
        if (used[0] == used[1]) used[1] = (used[1] + 1) % 64;
        lesson.use(layer, used);
      }
      lesson.end_token();
    }
    return std::vector<float>(lesson.learner.weights().begin(), lesson.learner.weights().end());
  };
  const std::vector<float> lasting = learned(0);
  EXPECT_GT(lasting[2], 0.6F);
  EXPECT_LT(lasting[0], 0.1F);
  const std::vector<float> brief = learned(12);
  EXPECT_GT(brief[0], 0.3F);
  EXPECT_LT(brief[2], 0.25F);
}

TEST(MixtureLearner, WithoutAnythingToTellApartKeepsItsWeights) {
  std::mt19937 random(2);
  for (const std::int32_t slots : {0, 10}) {  // no slot; a slot for every expert
    Lesson lesson({1, 10}, {slots});
    for (int token = 0; token < 300; ++token) {
      lesson.use(0, draw(random, token));
      lesson.end_token();
    }
    EXPECT_THAT(lesson.learner.weights(), ElementsAre(::testing::FloatNear(kStart[0], 1e-6F),
                                                      ::testing::FloatNear(kStart[1], 1e-6F),
                                                      ::testing::FloatNear(kStart[2], 1e-6F)));
  }
}

// A model of 512 experts a layer, where the best half-life runs from 8 to some hundreds of tokens.
TEST(MixtureLearner, IsNearTheBestHalfLifeAtEverySize) {
  const Trace trace = synthetic_trace({.layers = 4, .tokens = 2000, .seed = 11});
  SimulationOptions options;
  options.experts = 512;
  options.first_token = 200;
  const auto rate = [&](PolicyOptions policy, bool instant) {
    options.policy = std::move(policy);
    options.instant = instant;
    return 100 * simulate(trace, options).hit_rate();
  };
  for (const int slots : {8, 62, 171, 256}) {
    options.capacity = slots / 512.0;
    double best = 0;
    for (const float half_life : {8.0F, 32.0F, 128.0F, 350.0F}) {
      best = std::max(best, rate({.kind = PolicyKind::kLfu, .half_life = half_life}, true));
    }
    EXPECT_GT(rate({}, false), best - 0.5) << slots << " slots";
    if (slots == 8) {
      EXPECT_LT(rate({.kind = PolicyKind::kMixture}, false), best - 1);
    }
  }
}

}  // namespace
}  // namespace strata::core
