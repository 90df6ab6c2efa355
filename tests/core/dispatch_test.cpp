// Grouping of a window's choices by expert, against a naive grouping.
#include "strata/core/dispatch.hpp"

#include "strata/device/cpu_device.hpp"
#include "strata/model/tensors.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace strata::core {
namespace {

constexpr int kExperts = 24;
constexpr int kLayer = 1;

class DispatchTest : public ::testing::Test {
 protected:
  DispatchTest() {
    testing::TinyShape shape;
    shape.experts = kExperts;
    const std::vector<std::byte> bytes = testing::TinyModel(shape).bytes();
    const gguf::File file = gguf::test::parse(bytes);
    model::HParams h = model::read_hparams(file);
    store_ = ExpertStore::load(file, model::bind_tensors(file, h), h, pool_, nullptr);
  }

  // Items in rising order of expert, each with its choices in order of (token, rank).
  void expect_groups(std::span<const device::ExpertWork> work, const std::vector<std::int32_t>& ids,
                     int used, const std::vector<int>& experts,
                     const std::function<const std::byte*(int expert)>& blob) const {
    std::size_t at = 0;
    for (const int e : experts) {
      std::vector<std::int32_t> tokens, rows;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] != e) continue;
        tokens.push_back(static_cast<std::int32_t>(i) / used);
        rows.push_back(static_cast<std::int32_t>(i));
      }
      if (tokens.empty()) continue;
      ASSERT_LT(at, work.size());
      EXPECT_EQ(work[at].blob, blob(e)) << "expert " << e;
      EXPECT_TRUE(std::ranges::equal(work[at].tokens, tokens)) << "expert " << e;
      EXPECT_TRUE(std::ranges::equal(work[at].rows, rows)) << "expert " << e;
      ++at;
    }
    EXPECT_EQ(at, work.size());
  }
  void expect_all_missed(std::span<const device::ExpertWork> work,
                         const std::vector<std::int32_t>& ids, int used) const {
    std::vector<int> all(kExperts);
    std::iota(all.begin(), all.end(), 0);
    expect_groups(work, ids, used, all, [this](int e) { return store_.blob(kLayer, e); });
  }

  ThreadPool pool_{ThreadPoolOptions{.threads = 1, .cpus = {}}};
  ExpertStore store_;
  ExpertDispatch dispatch_{kExperts};
};

std::vector<std::int32_t> random_ids(int tokens, int used, std::mt19937& random) {
  std::vector<std::int32_t> ids;
  for (int t = 0; t < tokens; ++t) {
    std::vector<std::int32_t> all(kExperts);
    std::iota(all.begin(), all.end(), 0);
    std::ranges::shuffle(all, random);
    ids.insert(ids.end(), all.begin(), all.begin() + used);
  }
  return ids;
}

TEST_F(DispatchTest, RandomChoicesOfWindowsThatGrowAndShrink) {
  std::mt19937 random(1);
  for (const int tokens : {1, 40, 2, 300, 1, 7}) {
    for (const int used : {1, 2, 8}) {
      const std::vector<std::int32_t> ids = random_ids(tokens, used, random);
      expect_all_missed(dispatch_.plan(store_, kLayer, ids, used), ids, used);
    }
  }
}

TEST_F(DispatchTest, OneTokenKeepsItsRanks) {
  const std::vector<std::int32_t> ids = {20, 3, 11};
  const auto work = dispatch_.plan(store_, kLayer, ids, 3);
  ASSERT_EQ(work.size(), 3u);
  EXPECT_EQ(work[0].blob, store_.blob(kLayer, 3));
  EXPECT_EQ(work[0].rows[0], 1);
  EXPECT_EQ(work[1].blob, store_.blob(kLayer, 11));
  EXPECT_EQ(work[1].rows[0], 2);
  EXPECT_EQ(work[2].blob, store_.blob(kLayer, 20));
  EXPECT_EQ(work[2].rows[0], 0);
}

TEST_F(DispatchTest, AllTokensOnOneExpert) {
  const std::vector<std::int32_t> ids(100, kExperts - 1);
  const auto work = dispatch_.plan(store_, kLayer, ids, 1);
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].tokens.size(), 100u);
  expect_all_missed(work, ids, 1);
}

TEST_F(DispatchTest, EveryTokenOnEveryExpert) {
  std::mt19937 random(2);
  const std::vector<std::int32_t> ids = random_ids(9, kExperts, random);
  const auto work = dispatch_.plan(store_, kLayer, ids, kExperts);
  EXPECT_EQ(work.size(), std::size_t{kExperts});
  expect_all_missed(work, ids, kExperts);
}

TEST_F(DispatchTest, NoTokensNoWork) { EXPECT_TRUE(dispatch_.plan(store_, kLayer, {}, 2).empty()); }

TEST_F(DispatchTest, ResidentExpertsAreHits) {
  device::CpuDevice device(pool_, {});
  ExpertCache cache(device, store_, kExperts, std::vector<int>{0, 8});
  const std::vector<int> resident = {2, 5, 7, 23};
  std::vector<int> others;
  for (int e = 0; e < kExperts; ++e) {
    if (std::ranges::find(resident, e) == resident.end()) others.push_back(e);
  }
  for (const int e : resident) cache.finish(cache.begin({kLayer, e}).slot);
  (void)cache.begin({kLayer, 9});  // promised, not there yet
  std::mt19937 random(3);
  for (const int tokens : {1, 50}) {
    const std::vector<std::int32_t> ids = random_ids(tokens, 4, random);
    const DispatchPlan plan = dispatch_.plan(store_, kLayer, ids, 4, &cache);
    expect_groups(plan.hits, ids, 4, resident, [&](int e) {
      return cache.blob(cache.slot_of({kLayer, e}));
    });
    expect_groups(plan.misses, ids, 4, others, [&](int e) { return store_.blob(kLayer, e); });
    const DispatchPlan elsewhere = dispatch_.plan(store_, 0, ids, 4, &cache);
    EXPECT_TRUE(elsewhere.hits.empty()) << "another layer's experts are not resident";
  }
}

}  // namespace
}  // namespace strata::core
