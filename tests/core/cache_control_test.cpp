// What the cache does between windows: it fills, follows a change of topic, counts what its copies
// were good for, and starts from profiles.
#include "strata/core/cache_control.hpp"

#include "strata/core/optimum_record.hpp"
#include "strata/device/cpu_device.hpp"
#include "strata/model/hparams.hpp"
#include "strata/model/tensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace strata::core {
namespace {

class CacheControlTest : public ::testing::Test {
 protected:
  CacheControlTest() {
    const gguf::File file = gguf::File::open(STRATA_SOURCE_DIR "/data/strata-demo.gguf");
    h_ = model::read_hparams(file);
    store_ = ExpertStore::load(file, model::bind_tensors(file, h_), h_, threads_, nullptr);
    geometry_ = {h_.layers, h_.experts};
    routing_ = std::make_unique<WindowRouting>(geometry_, h_.experts_used, 8);
  }

  void make(int quota, const CacheControlOptions& options, const Profile* profile = nullptr,
            double link = 0) {
    control_.reset();  // it stops the copies
    const std::vector<int> quotas(static_cast<std::size_t>(h_.layers), quota);
    cache_ = std::make_unique<ExpertCache>(accelerator_, store_, h_.experts, quotas);
    copies_ = std::make_unique<CopyEngine>(accelerator_.make_copier(), link);
    control_ = std::make_unique<CacheControl>(*cache_, store_, *copies_, profile, options);
    if (profile != nullptr) control_->warm_start(*profile, nullptr);
  }

  // A window whose tokens all use experts first .. first + used - 1 of every layer.
  void window(int first, int tokens = 1) {
    std::vector<std::int32_t> ids;
    for (int t = 0; t < tokens; ++t) {
      for (int i = 0; i < h_.experts_used; ++i) ids.push_back((first + i) % h_.experts);
    }
    window_of(ids);
  }
  void window_of(const std::vector<std::int32_t>& ids) {
    const std::vector<float> weights(ids.size(), 0.125F);
    routing_->clear();
    for (int layer = 0; layer < h_.layers; ++layer) routing_->add(layer, ids, weights);
    control_->after_window(*routing_, slow_, 0);
  }
  // How many of the experts that window(first) uses are resident, over all layers.
  [[nodiscard]] int resident(int first) const {
    int count = 0;
    for (int layer = 0; layer < h_.layers; ++layer) {
      for (int i = 0; i < h_.experts_used; ++i)
        count += cache_->slot_of({layer, (first + i) % h_.experts}) == kNotResident ? 0 : 1;
    }
    return count;
  }
  [[nodiscard]] int wanted() const { return h_.layers * h_.experts_used; }

  ThreadPool threads_{ThreadPoolOptions{.threads = 1, .cpus = {}}};
  device::CpuDevice accelerator_{threads_, {}};
  model::HParams h_;
  ExpertStore store_;
  ExpertGeometry geometry_;
  std::unique_ptr<WindowRouting> routing_;
  std::unique_ptr<ExpertCache> cache_;
  std::unique_ptr<CopyEngine> copies_;
  std::unique_ptr<CacheControl> control_;
  double slow_ = 0;  // bytes a second of the pool; 0: not measured
};

TEST_F(CacheControlTest, AnEmptyCacheFillsWithWhatIsUsed) {
  make(8, {.policy = {}, .adapt_every = 1});
  // A pass starts no more copies than the link carries until the next, but at least one.
  for (int t = 0; t <= wanted(); ++t) {
    window(0);
    control_->drain();
  }
  EXPECT_EQ(resident(0), wanted());
  EXPECT_EQ(control_->swaps().copies, static_cast<std::uint64_t>(wanted()));
  EXPECT_EQ(control_->swaps().replaced, 0U);
  for (int slot = 0; slot < cache_->slots(); ++slot) EXPECT_TRUE(cache_->verify(store_, slot));
}

TEST_F(CacheControlTest, FollowsAChangeOfTopicWithin64Tokens) {
  slow_ = 1e6;  // a copy pays, however slow it is under a sanitizer
  make(8, {});
  for (int t = 0; t < 400; ++t) {
    window(0);
    control_->drain();
  }
  ASSERT_EQ(resident(0), wanted());
  for (int t = 0; t < 64; ++t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // what a token takes
    window(20);
    control_->drain();
  }
  EXPECT_EQ(resident(20), wanted());
  EXPECT_EQ(control_->swaps().replaced, static_cast<std::uint64_t>(wanted()));
}

TEST_F(CacheControlTest, EveryCopyIsUsefulWastedOrStillWaiting) {
  make(6, {.policy = {.kind = PolicyKind::kLru}, .adapt_every = 1});
  std::mt19937 random(5);
  std::vector<std::int32_t> all(static_cast<std::size_t>(h_.experts));
  std::iota(all.begin(), all.end(), 0);
  for (int t = 0; t < 200; ++t) {
    std::ranges::shuffle(all, random);
    window_of({all.begin(), all.begin() + h_.experts_used});
    control_->drain();
  }
  const SwapCounts& swaps = control_->swaps();
  EXPECT_GT(swaps.useful, 0U);
  EXPECT_GT(swaps.wasted, 0U);
  EXPECT_LE(swaps.useful + swaps.wasted, swaps.copies);
  EXPECT_LE(swaps.copies - swaps.useful - swaps.wasted,
            static_cast<std::uint64_t>(cache_->slots()));
  EXPECT_EQ(swaps.copies - swaps.replaced, static_cast<std::uint64_t>(cache_->slots()))
      << "free slots are filled once";
}

TEST_F(CacheControlTest, AProfileFillsTheSlotsAndItsHitsAreCounted) {
  std::vector<double> counts(geometry_.pairs());
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<double>(i % 64);
  const Profile profile = profile_from_counts(counts, geometry_);
  make(16, {.policy = {.kind = PolicyKind::kStatic}}, &profile);
  EXPECT_EQ(control_->swaps().prefilled, static_cast<std::uint64_t>(16 * h_.layers));
  EXPECT_EQ(resident(48), wanted());
  EXPECT_EQ(resident(56), wanted());
  EXPECT_EQ(resident(40), 0);
  window(56, 3);
  window(0);
  for (int layer = 0; layer < h_.layers; ++layer)
    EXPECT_EQ(control_->hits_profile(layer), static_cast<std::uint64_t>(h_.experts_used))
        << "three tokens of a window use an expert once";
  EXPECT_EQ(control_->swaps().copies, 0U) << "static: nothing is swapped";
}

TEST_F(CacheControlTest, NoneAndZeroDoNothing) {
  make(8, {.policy = {.kind = PolicyKind::kNone}, .adapt_every = 1});
  for (int t = 0; t < 10; ++t) window(0);
  EXPECT_EQ(control_->swaps().copies, 0U);
  make(8, {.policy = {}, .adapt_every = 0});
  for (int t = 0; t < 10; ++t) window(0);
  EXPECT_EQ(control_->swaps().passes, 0U);
  make(0, {.policy = {}, .adapt_every = 1});
  for (int t = 0; t < 10; ++t) window(0);
  EXPECT_EQ(control_->swaps().copies, 0U) << "there is no slot";
}

TEST_F(CacheControlTest, TheSwapsOfAPassAreBounded) {
  make(8, {.policy = {}, .adapt_every = 4, .max_swaps = 5});
  for (int t = 0; t < 4; ++t) window(0);
  EXPECT_EQ(control_->swaps().passes, 1U);
  EXPECT_EQ(control_->swaps().copies, 5U);
}

TEST_F(CacheControlTest, WhatWasLearnedIsRankedByUse) {
  make(4, {.policy = {}, .adapt_every = 1});
  for (int t = 0; t < 20; ++t) window(t % 4 == 0 ? 30 : 10);
  const Profile learned = control_->learned_profile();
  ASSERT_EQ(learned.ranked.size(), geometry_.pairs());
  for (std::size_t i = 0; i < static_cast<std::size_t>(wanted()); ++i) {
    EXPECT_GE(learned.ranked[i].expert, 10);
    EXPECT_LT(learned.ranked[i].expert, 18);
  }
  EXPECT_EQ(learned.slots, static_cast<std::uint32_t>(cache_->slots()));
}

TEST_F(CacheControlTest, MayEndWithCopiesUnderWay) {
  for (int i = 0; i < 20; ++i) {
    make(8, {.policy = {}, .adapt_every = 1}, nullptr, 1e6);  // a copy takes 28 ms
    window(0);
    control_.reset();
    cache_.reset();  // a copy that still ran would write to memory that is gone
    copies_.reset();
  }
}

TEST_F(CacheControlTest, TheOptimumNeverHitsLessThanTheCache) {
  make(8, {.policy = {}, .adapt_every = 1});
  OptimumRecord record(geometry_, h_.experts_used, 300);
  std::mt19937 random(6);
  std::geometric_distribution<int> skewed(0.08);
  for (int t = 0; t < 320; ++t) {
    std::vector<std::int32_t> ids;
    while (static_cast<int>(ids.size()) < h_.experts_used) {
      const int e = skewed(random) % h_.experts;
      if (std::ranges::find(ids, e) == ids.end()) ids.push_back(e);
    }
    const std::vector<float> weights(ids.size(), 0.125F);
    routing_->clear();
    for (int layer = 0; layer < h_.layers; ++layer) routing_->add(layer, ids, weights);
    record.add(*routing_, *cache_);
    control_->after_window(*routing_, 0, 0);
    control_->drain();
  }
  const OptimumRecord::Result result = record.compare(*cache_);
  EXPECT_EQ(result.tokens, 300) << "later ones are not kept";
  EXPECT_GT(result.hit_rate, 0.05);
  EXPECT_GT(result.optimum, result.hit_rate);
  EXPECT_LT(result.optimum, 1);
}

TEST(WindowRoutingTest, RowsOfTheLastLayerAreTheWindowsLastTokens) {
  WindowRouting routing({3, 16}, 2, 4);
  const std::vector<std::int32_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<float> weights(8, 0.5F);
  routing.add(0, all, weights);
  routing.add(2, std::span(all).first(2), std::span(weights).first(2));
  EXPECT_EQ(routing.tokens(), 4);
  EXPECT_EQ(routing.ids(0, 1)[0], 2);
  EXPECT_TRUE(routing.ids(1, 3).empty()) << "a layer without a row";
  EXPECT_TRUE(routing.ids(2, 2).empty());
  EXPECT_EQ(routing.ids(2, 3)[1], 1);
  EXPECT_EQ(routing.ids(2).size(), 2U);
  routing.clear();
  EXPECT_EQ(routing.tokens(), 0);
}

}  // namespace
}  // namespace strata::core
