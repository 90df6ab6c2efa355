#include "strata/runtime/sampler.hpp"

#include "strata/runtime/sampler_math.hpp"
#include "tests/runtime/sampling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

namespace strata::runtime {
namespace {

using ::testing::HasSubstr;

// The sampler once more, as its header defines it and as slowly as that reads: a full sort, libm's
// exp, a history searched from end to end.
struct Reference {
  SamplingParams params;
  std::vector<std::int32_t> history;

  struct Token {
    std::int32_t id;
    float score;
    std::uint64_t weight;
  };

  float adjusted(float logit, std::int32_t id) const {
    if (const auto bias = params.logit_bias.find(id); bias != params.logit_bias.end()) {
      logit += bias->second;
    }
    const std::size_t window = params.penalty_last_n < 0
                                   ? history.size()
                                   : std::min<std::size_t>(history.size(), params.penalty_last_n);
    const auto seen =
        std::count(history.end() - static_cast<std::ptrdiff_t>(window), history.end(), id);
    if (seen == 0) return logit;
    const double repeated = logit > 0 ? logit / static_cast<double>(params.repetition_penalty)
                                      : logit * static_cast<double>(params.repetition_penalty);
    return static_cast<float>(repeated - static_cast<double>(params.frequency_penalty) * seen -
                              params.presence_penalty);
  }

  // The tokens that are left, in order of id.
  std::vector<Token> kept(std::span<const float> logits) const {
    std::vector<Token> tokens;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const auto id = static_cast<std::int32_t>(i);
      tokens.push_back({id, adjusted(logits[i], id), 0});
    }
    std::stable_sort(tokens.begin(), tokens.end(),
                     [](const Token& a, const Token& b) { return a.score > b.score; });
    if (params.temperature == 0) {
      tokens.resize(1);
      tokens[0].weight = 1;
      return tokens;
    }
    if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < tokens.size())
      tokens.resize(params.top_k);
    const double best = tokens[0].score;
    std::uint64_t total = 0;
    for (Token& token : tokens) {
      token.weight = static_cast<std::uint64_t>(
          std::llrint(std::ldexp(std::exp((token.score - best) / params.temperature), 40)));
      total += token.weight;
    }
    if (params.top_p < 1) {
      const double target =
          std::max(1.0, std::ceil(static_cast<double>(params.top_p) * static_cast<double>(total)));
      std::uint64_t sum = 0;
      std::size_t count = 0;
      while (static_cast<double>(sum) < target) sum += tokens[count++].weight;
      tokens.resize(count);
    }
    std::erase_if(tokens, [&](const Token& token) {
      return static_cast<double>(token.weight) < std::ldexp(params.min_p, 40) || token.weight == 0;
    });
    std::sort(tokens.begin(), tokens.end(),
              [](const Token& a, const Token& b) { return a.id < b.id; });
    return tokens;
  }

  std::int32_t sample(std::span<const float> logits, std::uint64_t position) const {
    const std::vector<Token> tokens = kept(logits);
    std::uint64_t total = 0;
    for (const Token& token : tokens) total += token.weight;
    const long double uniform =
        std::ldexp(static_cast<long double>(position_bits(params.seed, position)), -64);
    std::uint64_t sum = 0;
    for (const Token& token : tokens) {
      sum += token.weight;
      if (static_cast<long double>(sum) > std::floor(uniform * static_cast<long double>(total)))
        return token.id;
    }
    return -1;
  }
};

void expect_same(Sampler& sampler, const Reference& reference, std::span<const float> logits,
                 std::uint64_t position) {
  const auto got = sampler.probabilities(logits);
  const auto want = reference.kept(logits);
  ASSERT_EQ(got.size(), want.size());
  double total = 0;
  for (const auto& token : want) total += static_cast<double>(token.weight);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].id, want[i].id);
    ASSERT_NEAR(got[i].probability, static_cast<double>(want[i].weight) / total, 1e-11);
  }
  for (std::uint64_t p = position; p < position + 4; ++p) {
    ASSERT_EQ(sampler.sample(logits, p), reference.sample(logits, p));
  }
}

TEST(Philox, KnownAnswers) {
  // From the kat_vectors file of Random123 1.14.
  using Words = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(SamplerMath, ExponentialIsCloseToLibmAndExactAtZero) {
  EXPECT_EQ(exp_scaled<40>(0.0), 0x1p40);
  EXPECT_EQ(exp_scaled<0>(-0.0), 1.0);
  for (double x = 0; x > -600; x -= 0.00731) {
    ASSERT_NEAR(exp_scaled<0>(x) / std::exp(x), 1.0, 1e-14) << x;
  }
  for (const double x : {-600.0, -700.0, -1e10, -1e300, -std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(exp_scaled<40>(x), 0.0) << x;
  }
}

TEST(SamplerMath, ExponentialHasTheBitsItAlwaysHad) {
  // Evaluated at compile time by the compiler's own arithmetic, and again by this processor's.
  constexpr std::array<double, 5> kArguments = {-0.001, -0.3, -1.0, -7.77, -25.5};
  constexpr std::array<double, 5> kValues = {exp_scaled<0>(-0.001), exp_scaled<0>(-0.3),
                                             exp_scaled<0>(-1.0), exp_scaled<0>(-7.77),
                                             exp_scaled<0>(-25.5)};
  for (std::size_t i = 0; i < kArguments.size(); ++i) {
    volatile double argument = kArguments[i];
    EXPECT_EQ(exp_scaled<0>(argument), kValues[i]);
  }
}

TEST(SamplerMath, LogarithmIsCloseToLibm) {
  EXPECT_EQ(log_exact(1.0), 0.0);
  for (double x = 1; x < 1e9; x *= 1.00037) ASSERT_NEAR(log_exact(x), std::log(x), 1e-13) << x;
}

TEST(Sampler, GreedyTakesTheFirstOfTheBest) {
  SamplingParams params;
  params.temperature = 0;
  Sampler sampler(params, 5);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 3, 2, 3, -1}, 0), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{-0.0F, 0.0F, -1, 0.0F, -1}, 7), 0);
  EXPECT_EQ(greedy_token(std::vector<float>{-5, -3, -3}), 1);
  const auto all = sampler.probabilities(std::vector<float>{0, 0, 0, 0, 9});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].id, 4);
  EXPECT_EQ(all[0].probability, 1.0);
}

TEST(Sampler, GreedyFindsTheBestWhereverItStands) {
  std::mt19937 random(1);
  for (const std::size_t size : {1, 2, 15, 16, 17, 31, 33, 100}) {
    std::vector<float> logits = random_logits(size, random);
    for (std::size_t at = 0; at < size; ++at) {
      const float old = std::exchange(logits[at], 1000.0F);
      ASSERT_EQ(greedy_token(logits), static_cast<std::int32_t>(at));
      logits[at] = old;
    }
  }
}

TEST(Sampler, EqualsTheReferenceForAllCombinationsOfFilters) {
  std::mt19937 random(2);
  for (const std::size_t vocab : {1, 2, 7, 40, 700, 3000}) {
    for (const float temperature : {0.0F, 1e-3F, 0.6F, 1.0F, 5.0F}) {
      for (const std::int32_t top_k : {0, 1, 20, 600}) {
        for (const float top_p : {0.0F, 0.3F, 0.95F, 1.0F}) {
          for (const float min_p : {0.0F, 0.05F, 1.0F}) {
            SamplingParams params;
            params.temperature = temperature;
            params.top_k = top_k;
            params.top_p = top_p;
            params.min_p = min_p;
            params.seed = random();
            Sampler sampler(params, vocab);
            const std::vector<float> logits = random_logits(vocab, random);
            SCOPED_TRACE(::testing::Message()
                         << "vocab " << vocab << " temperature " << temperature << " top_k "
                         << top_k << " top_p " << top_p << " min_p " << min_p);
            ASSERT_NO_FATAL_FAILURE(expect_same(sampler, {params, {}}, logits, random()));
          }
        }
      }
    }
  }
}

TEST(Sampler, EqualsTheReferenceOnTies) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    SamplingParams params;
    params.top_k = static_cast<std::int32_t>(random() % 900);
    params.top_p = static_cast<float>(random() % 100) / 100;
    params.min_p = static_cast<float>(random() % 3) / 10;
    params.seed = random();
    std::vector<float> logits(600);
    for (float& logit : logits) logit = static_cast<float>(random() % (1 + round % 5)) - 1.0F;
    Sampler sampler(params, logits.size());
    ASSERT_NO_FATAL_FAILURE(expect_same(sampler, {params, {}}, logits, random()));
  }
}

TEST(Sampler, EqualsTheReferenceWithPenaltiesBiasAndHistory) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const std::size_t vocab = 2 + random() % 60;
    SamplingParams params;
    params.temperature = round % 5 == 0 ? 0.0F : 0.8F;
    params.top_k = static_cast<std::int32_t>(random() % 30);
    params.top_p = 0.9F;
    params.repetition_penalty = round % 3 == 0 ? 1.0F : 1.3F;
    params.presence_penalty = round % 2 == 0 ? 0.0F : 0.5F;
    params.frequency_penalty = round % 4 == 0 ? 0.0F : -0.25F;
    params.penalty_last_n = static_cast<std::int32_t>(random() % 12) - 1;
    params.seed = random();
    for (std::size_t i = random() % 4; i > 0; --i) {
      const auto id =
          static_cast<std::int32_t>(1 + random() % (vocab - 1));  // token 0 is never banned
      params.logit_bias[id] = i == 1 ? -kInfinity : static_cast<float>(random() % 9) - 4.0F;
    }
    Sampler sampler(params, vocab);
    Reference reference{params, {}};
    for (int step = 0; step < 30; ++step) {
      const std::vector<float> logits = random_logits(vocab, random);
      ASSERT_NO_FATAL_FAILURE(expect_same(sampler, reference, logits, random()))
          << round << " " << step;
      const auto token = static_cast<std::int32_t>(random() % vocab);
      sampler.accept(token);
      reference.history.push_back(token);
    }
  }
}

TEST(Sampler, DrawsFollowTheDistribution) {
  // Pearson's chi-square over fixed seeds: not a matter of luck, the figures are the same on every
  // run. 1e-4 of honest generators would exceed the bound.
  const std::vector<float> logits = {2.0F, 1.0F, 0.5F, 0.0F, -0.5F, -1.0F, -2.0F, 1.5F};
  constexpr int kDraws = 200000;
  constexpr double kBound = 29.88;  // 7 degrees of freedom
  for (const float temperature : {0.5F, 1.0F, 2.0F}) {
    for (const std::uint64_t seed : {0ULL, 1ULL, 0xFFFFFFFFFFFFFFFFULL}) {
      SamplingParams params;
      params.temperature = temperature;
      params.seed = seed;
      Sampler sampler(params, logits.size());
      std::vector<int> counts(logits.size());
      for (int i = 0; i < kDraws; ++i)
        ++counts[static_cast<std::size_t>(sampler.sample(logits, i))];
      double total = 0;
      for (const float logit : logits) total += std::exp(logit / temperature);
      double chi_square = 0;
      for (std::size_t i = 0; i < logits.size(); ++i) {
        const double expected = kDraws * std::exp(logits[i] / temperature) / total;
        chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
      }
      EXPECT_LT(chi_square, kBound) << "temperature " << temperature << " seed " << seed;
    }
  }
}

TEST(Sampler, SeedsAreIndependent) {
  // The same position under 100,000 seeds is as good a source as one seed's positions.
  const std::vector<float> logits(10, 0.0F);
  std::vector<int> counts(10);
  for (std::uint64_t seed = 0; seed < 100000; ++seed) {
    SamplingParams params;
    params.seed = seed;
    Sampler sampler(params, 10);
    ++counts[static_cast<std::size_t>(sampler.sample(logits, 5))];
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 1e4) * (count - 1e4) / 1e4;
  EXPECT_LT(chi_square, 33.72);  // 9 degrees of freedom, 1e-4
}

TEST(Sampler, ADrawDependsOnSeedAndPositionOnly) {
  std::mt19937 random(5);
  SamplingParams params;
  params.seed = 42;
  const std::vector<float> logits = random_logits(500, random);
  Sampler forward(params, 500);
  std::vector<std::int32_t> tokens;
  for (std::uint64_t position = 0; position < 100; ++position)
    tokens.push_back(forward.sample(logits, position));
  Sampler backward(params, 500);
  for (std::uint64_t position = 100; position-- > 0;) {
    static_cast<void>(backward.sample(random_logits(500, random), position + 1000));
    EXPECT_EQ(backward.sample(logits, position), tokens[position]);
    EXPECT_EQ(backward.sample(logits, position), tokens[position]);
  }
  params.seed = 43;
  Sampler other(params, 500);
  int equal = 0;
  for (std::uint64_t position = 0; position < 100; ++position)
    equal += other.sample(logits, position) == tokens[position];
  EXPECT_LT(equal, 30);
  EXPECT_GT(std::set<std::int32_t>(tokens.begin(), tokens.end()).size(), 20U);
}

TEST(Sampler, TokensOfAFixedSeedNeverChange) {
  // A change here breaks users' saved seeds: do not update without a note in the changelog.
  std::vector<float> logits(1000);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>((i * 7919) % 1000) / 100.0F;
  SamplingParams params;
  params.temperature = 0.8F;
  params.top_p = 0.9F;
  params.seed = 2026;
  Sampler sampler(params, logits.size());
  std::vector<std::int32_t> tokens;
  for (std::uint64_t position = 0; position < 8; ++position)
    tokens.push_back(sampler.sample(logits, position));
  EXPECT_THAT(tokens, ::testing::ElementsAre(531, 346, 718, 926, 173, 99, 963, 878));
}

TEST(Sampler, ThePenaltyWindowForgets) {
  SamplingParams params;
  params.temperature = 0;
  params.presence_penalty = 1;
  params.penalty_last_n = 2;
  Sampler sampler(params, 3);
  const std::vector<float> logits = {1.0F, 0.9F, 0.8F};
  EXPECT_EQ(sampler.sample(logits, 0), 0);
  sampler.accept(0);
  EXPECT_EQ(sampler.sample(logits, 1), 1);
  sampler.accept(1);
  EXPECT_EQ(sampler.sample(logits, 2), 2);
  sampler.accept(1);  // 0 has left the window
  EXPECT_EQ(sampler.sample(logits, 3), 0);
  sampler.clear_history();
  sampler.accept(0);
  EXPECT_EQ(sampler.sample(logits, 4), 1);
}

TEST(Sampler, FrequencyCountsEverySighting) {
  SamplingParams params;
  params.temperature = 0;
  params.frequency_penalty = 0.4F;
  params.penalty_last_n = -1;
  Sampler sampler(params, 2);
  const std::vector<float> logits = {1.0F, 0.0F};
  sampler.accept(0);
  sampler.accept(0);
  EXPECT_EQ(sampler.sample(logits, 0), 0);
  sampler.accept(0);
  EXPECT_EQ(sampler.sample(logits, 0), 1);
}

TEST(Sampler, RepetitionPenaltyAlwaysLowersALogit) {
  SamplingParams params;
  params.repetition_penalty = 2;
  Sampler sampler(params, 2);
  sampler.accept(0);
  for (const float logit : {2.0F, -2.0F}) {
    const auto kept = sampler.probabilities(std::vector<float>{logit, logit});
    ASSERT_EQ(kept.size(), 2U);
    EXPECT_LT(kept[0].probability, kept[1].probability) << logit;
  }
}

TEST(Sampler, ABannedTokenIsNeverDrawn) {
  for (const float temperature : {0.0F, 1.0F, 100.0F}) {
    SamplingParams params;
    params.temperature = temperature;
    params.logit_bias = {{0, -kInfinity}, {2, -kInfinity}};
    params.repetition_penalty = 1.5F;
    params.frequency_penalty = -100;
    Sampler sampler(params, 4);
    sampler.accept(0);
    const std::vector<float> logits = {50.0F, 1.0F, 60.0F, 0.0F};
    for (std::uint64_t position = 0; position < 200; ++position) {
      const std::int32_t token = sampler.sample(logits, position);
      ASSERT_TRUE(token == 1 || token == 3) << token;
    }
  }
}

TEST(Sampler, TopKKeepsOnlyWhatIsNotBanned) {
  SamplingParams params;
  params.top_k = 3;
  params.logit_bias = {{0, -kInfinity}, {1, -kInfinity}, {2, -kInfinity}};
  Sampler sampler(params, 4);
  const auto kept = sampler.probabilities(std::vector<float>{9, 9, 9, 0});
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].id, 3);
}

TEST(Sampler, BanningEveryTokenIsAnError) {
  for (const float temperature : {0.0F, 1.0F}) {
    SamplingParams params;
    params.temperature = temperature;
    params.logit_bias = {{0, -kInfinity}, {1, -kInfinity}};
    Sampler sampler(params, 2);
    EXPECT_EQ(error_of([&] {
                static_cast<void>(sampler.sample(std::vector<float>{1, 2}, 0));
              }),
              ErrorKind::kUsage);
  }
}

TEST(Sampler, TheStrictestFiltersLeaveOneToken) {
  std::mt19937 random(6);
  const std::vector<float> logits = random_logits(1000, random);
  for (int filter = 0; filter < 5; ++filter) {
    SamplingParams params;
    if (filter == 0) params.top_k = 1;
    if (filter == 1) params.top_p = 0;
    if (filter == 2) params.top_p = 1e-30F;
    if (filter == 3) params.min_p = 1;
    if (filter == 4) params.temperature = std::numeric_limits<float>::denorm_min();
    Sampler sampler(params, logits.size());
    EXPECT_EQ(sampler.probabilities(logits).size(), 1U) << filter;
    EXPECT_EQ(sampler.sample(logits, 3), greedy_token(logits)) << filter;
  }
}

TEST(Sampler, ExtremeLogitsStayInBounds) {
  constexpr float kMax = std::numeric_limits<float>::max();
  SamplingParams params;
  params.repetition_penalty = 100;
  params.presence_penalty = -100;
  params.logit_bias = {{1, kMax}, {2, -kMax}};
  for (const float temperature : {1e-30F, 1.0F, 100.0F}) {
    params.temperature = temperature;
    Sampler sampler(params, 4);
    for (std::int32_t id = 0; id < 4; ++id) sampler.accept(id);
    const auto kept = sampler.probabilities(std::vector<float>{-kMax, kMax, -kMax, kMax});
    ASSERT_EQ(kept.size(), 2U);
    EXPECT_EQ(kept[0].id, 1);
    EXPECT_EQ(kept[1].id, 3);
  }
}

TEST(Sampler, BrokenLogitsAreRefusedAndNamed) {
  for (const float temperature : {0.0F, 1.0F}) {
    for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
      for (const std::size_t at : {0, 15, 16, 99}) {
        SamplingParams params;
        params.temperature = temperature;
        params.top_k = 5;
        Sampler sampler(params, 100);
        std::vector<float> logits(100, 1.0F);
        logits[at] = bad;
        std::string text;
        EXPECT_EQ(error_of([&] { static_cast<void>(sampler.sample(logits, 0)); }, &text),
                  ErrorKind::kInternal);
        EXPECT_THAT(text, HasSubstr("token " + std::to_string(at) + " "));
        EXPECT_EQ(error_of([&] { static_cast<void>(sampler.probabilities(logits)); }),
                  ErrorKind::kInternal);
        EXPECT_EQ(error_of([&] { static_cast<void>(top_logprobs(logits, 3)); }),
                  ErrorKind::kInternal);
      }
    }
  }
}

TEST(Sampler, WrongSizesAreRefused) {
  Sampler sampler({}, 10);
  EXPECT_EQ(error_of([&] { static_cast<void>(sampler.sample(std::vector<float>(9), 0)); }),
            ErrorKind::kInternal);
  EXPECT_EQ(error_of([&] { static_cast<void>(sampler.probabilities(std::vector<float>(11))); }),
            ErrorKind::kInternal);
  EXPECT_EQ(error_of([&] { sampler.accept(10); }), ErrorKind::kInternal);
  EXPECT_EQ(error_of([&] { sampler.accept(-1); }), ErrorKind::kInternal);
  EXPECT_EQ(error_of([] { Sampler({}, 0); }), ErrorKind::kUnsupported);
  EXPECT_EQ(error_of([] { Sampler({}, kMaxSampledVocab + 1); }), ErrorKind::kUnsupported);
  EXPECT_EQ(error_of([] { static_cast<void>(greedy_token({})); }), ErrorKind::kInternal);
  EXPECT_EQ(error_of([] { static_cast<void>(token_logprob(std::vector<float>{1}, 1)); }),
            ErrorKind::kInternal);
}

TEST(SamplingParams, EveryFieldIsCheckedAndNamed) {
  struct Case {
    const char* field;
    std::function<void(SamplingParams&)> spoil;
  };
  const float nan = std::nanf("");
  const std::vector<Case> cases = {
      {"temperature", [](SamplingParams& p) { p.temperature = -0.1F; }},
      {"temperature", [](SamplingParams& p) { p.temperature = 101; }},
      {"temperature", [&](SamplingParams& p) { p.temperature = nan; }},
      {"top_k", [](SamplingParams& p) { p.top_k = -1; }},
      {"top_p", [](SamplingParams& p) { p.top_p = 1.01F; }},
      {"top_p", [&](SamplingParams& p) { p.top_p = nan; }},
      {"min_p", [](SamplingParams& p) { p.min_p = -0.01F; }},
      {"repetition_penalty", [](SamplingParams& p) { p.repetition_penalty = 0; }},
      {"repetition_penalty", [&](SamplingParams& p) { p.repetition_penalty = nan; }},
      {"presence_penalty", [](SamplingParams& p) { p.presence_penalty = 101; }},
      {"frequency_penalty", [](SamplingParams& p) { p.frequency_penalty = -kInfinity; }},
      {"penalty_last_n", [](SamplingParams& p) { p.penalty_last_n = -2; }},
      {"logit_bias", [](SamplingParams& p) { p.logit_bias[-1] = 0; }},
      {"logit_bias", [](SamplingParams& p) { p.logit_bias[3] = kInfinity; }},
      {"logit_bias", [](SamplingParams& p) { p.logit_bias[100] = 1; }},  // beyond the vocabulary
  };
  for (const Case& spoiled : cases) {
    SamplingParams params;
    EXPECT_NO_THROW(params.validate());
    spoiled.spoil(params);
    std::string text;
    EXPECT_EQ(error_of([&] { Sampler(params, 100); }, &text), ErrorKind::kUsage) << spoiled.field;
    EXPECT_THAT(text, HasSubstr(spoiled.field));
  }
}

TEST(TopLogprobs, AreSortedNormalisedAndIgnoreTheParameters) {
  std::mt19937 random(9);
  const std::vector<float> logits = random_logits(2000, random);
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit));
  const auto top = top_logprobs(logits, 25);
  ASSERT_EQ(top.size(), 25U);
  EXPECT_EQ(top[0].id, greedy_token(logits));
  for (std::size_t i = 0; i < top.size(); ++i) {
    const float logit = logits[static_cast<std::size_t>(top[i].id)];
    EXPECT_NEAR(top[i].logprob, logit - std::log(total), 1e-12);
    EXPECT_EQ(top[i].logprob, token_logprob(logits, top[i].id));
    EXPECT_EQ(std::count_if(logits.begin(), logits.end(), [&](float x) { return x > logit; }),
              static_cast<long>(i));
  }
  const auto all = top_logprobs(logits, 5000);
  ASSERT_EQ(all.size(), logits.size());
  double sum = 0;
  for (const TokenLogprob& token : all) sum += std::exp(token.logprob);
  EXPECT_NEAR(sum, 1.0, 1e-12);
  EXPECT_TRUE(top_logprobs(logits, 0).empty());
}

}  // namespace
}  // namespace strata::runtime
