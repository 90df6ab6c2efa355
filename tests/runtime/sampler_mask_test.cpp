// The mask of the tokens that may come next.
#include "strata/runtime/sampler.hpp"
#include "tests/runtime/sampling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace strata::runtime {
namespace {

std::vector<std::uint64_t> mask_of(const std::vector<bool>& allowed) {
  std::vector<std::uint64_t> mask(allowed.size() / 64 + 1);
  for (std::size_t id = 0; id < allowed.size(); ++id) {
    if (allowed[id]) mask[id / 64] |= std::uint64_t{1} << id % 64;
  }
  return mask;
}

TEST(Sampler, AMaskIsTheSameAsBanningTheOthers) {
  std::mt19937 random(16);
  for (const float temperature : {0.0F, 1.5F}) {
    for (const std::size_t size : {1, 63, 64, 65, 300}) {
      const std::vector<float> logits = random_logits(size, random);
      SamplingParams params;
      params.temperature = temperature;
      params.top_p = 0.9F;
      params.top_k = 20;
      params.frequency_penalty = 0.5F;
      params.logit_bias = {{0, 3.0F}};  // cannot bring a token back
      SamplingParams banning = params;
      std::vector<bool> allowed(size);
      for (std::size_t id = 0; id < size; ++id) allowed[id] = id + 1 == size || random() % 3 == 0;
      for (std::size_t id = 0; id < size; ++id) {
        if (!allowed[id]) banning.logit_bias[static_cast<std::int32_t>(id)] = -kInfinity;
      }
      Sampler masked(params, size);
      Sampler banned(banning, size);
      for (std::uint64_t position = 0; position < 50; ++position) {
        const std::int32_t token = masked.sample(logits, position, mask_of(allowed));
        ASSERT_TRUE(allowed[static_cast<std::size_t>(token)]);
        ASSERT_EQ(token, banned.sample(logits, position));
        masked.accept(token);
        banned.accept(token);
      }
    }
  }
}

TEST(Sampler, AMaskOfAllTokensChangesNothing) {
  std::mt19937 random(17);
  const std::vector<float> logits = random_logits(100, random);
  const std::vector<std::uint64_t> all(2, ~std::uint64_t{0});
  Sampler sampler({}, logits.size());
  for (std::uint64_t position = 0; position < 100; ++position) {
    ASSERT_EQ(sampler.sample(logits, position, all), sampler.sample(logits, position));
  }
}

TEST(Sampler, AMaskThatIsTooShortOrEmptyIsRefused) {
  Sampler sampler({}, 65);
  const std::vector<float> logits(65);
  const std::vector<std::uint64_t> one(1, ~std::uint64_t{0});
  const std::vector<std::uint64_t> none(2);
  EXPECT_EQ(error_of([&] { static_cast<void>(sampler.sample(logits, 0, one)); }),
            ErrorKind::kInternal);
  EXPECT_EQ(error_of([&] { static_cast<void>(sampler.sample(logits, 0, none)); }),
            ErrorKind::kUsage);
}

}  // namespace
}  // namespace strata::runtime
