#include "strata/core/quota.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace strata::core {
namespace {

using ::testing::ElementsAre;

TEST(EqualQuotas, ShareByBytesAndLeaveDenseLayersOut) {
  const std::vector<std::int64_t> blobs = {0, 10, 20, 10};
  EXPECT_THAT(equal_quotas(40 * 3, blobs, 8), ElementsAre(0, 3, 3, 3));
  EXPECT_THAT(equal_quotas(40 * 3 + 15, blobs, 8), ElementsAre(0, 4, 3, 3));
  EXPECT_THAT(equal_quotas(40 * 3 + 20, blobs, 8), ElementsAre(0, 4, 3, 4));
  EXPECT_THAT(equal_quotas(1 << 30, blobs, 8), ElementsAre(0, 8, 8, 8));
  EXPECT_THAT(equal_quotas(0, blobs, 8), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(equal_quotas(9, blobs, 8), ElementsAre(0, 0, 0, 0));
}

TEST(MarginalQuotas, GoWhereAUseCostsFewestBytes) {
  const std::vector<std::int64_t> blobs = {10, 10};
  const std::vector<double> rates = {9, 1, 1, 1, 5, 5, 5, 0};  // hottest of layer 0 first
  EXPECT_THAT(marginal_quotas(40, blobs, rates, {2, 4}, 0), ElementsAre(1, 3));
  // The same uses from blobs three times as large are worth a third.
  EXPECT_THAT(marginal_quotas(60, std::vector<std::int64_t>{10, 30}, rates, {2, 4}, 0),
              ElementsAre(3, 1));
}

TEST(MarginalQuotas, StarveNobody) {
  const std::vector<std::int64_t> blobs = {10, 10};
  const std::vector<double> rates = {9, 9, 9, 9, 0, 0, 0, 0};
  EXPECT_THAT(marginal_quotas(40, blobs, rates, {2, 4}, 0), ElementsAre(4, 0));
  EXPECT_THAT(marginal_quotas(40, blobs, rates, {2, 4}, 0.5), ElementsAre(3, 1));
  EXPECT_THAT(marginal_quotas(40, blobs, rates, {2, 4}, 1), ElementsAre(2, 2));
}

TEST(MarginalQuotas, NeverExceedTheBudgetNorWasteIt) {
  std::mt19937 random(5);
  const ExpertGeometry geometry{6, 16};
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> blobs(6);
    for (auto& blob : blobs) blob = static_cast<std::int64_t>(random() % 5) * 100;
    std::vector<double> rates(geometry.pairs());
    for (auto& rate : rates) rate = static_cast<double>(random() % 1000);
    const auto budget = static_cast<std::int64_t>(random() % 30000);
    const auto quota = marginal_quotas(budget, blobs, rates, geometry);
    std::int64_t left = budget;
    for (std::size_t l = 0; l < 6; ++l) {
      EXPECT_GE(quota[l], 0);
      EXPECT_LE(quota[l], blobs[l] == 0 ? 0 : 16);
      left -= quota[l] * blobs[l];
    }
    EXPECT_GE(left, 0);
    for (std::size_t l = 0; l < 6; ++l) {
      if (blobs[l] > 0 && quota[l] < 16) {
        EXPECT_GT(blobs[l], left);
      }
    }
  }
}

}  // namespace
}  // namespace strata::core
