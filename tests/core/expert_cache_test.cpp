#include "strata/core/expert_cache.hpp"

#include "strata/base/error.hpp"
#include "strata/core/copy_engine.hpp"
#include "strata/device/cpu_device.hpp"
#include "strata/model/hparams.hpp"
#include "strata/model/tensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <set>
#include <vector>

namespace strata::core {
namespace {

class ExpertCacheTest : public ::testing::Test {
 protected:
  ExpertCacheTest() {
    const gguf::File file = gguf::File::open(STRATA_SOURCE_DIR "/data/strata-demo.gguf");
    h_ = model::read_hparams(file);
    const model::ModelTensors tensors = model::bind_tensors(file, h_);
    store_ = ExpertStore::load(file, tensors, h_, pool_, nullptr);
  }

  static void copy(const ExpertCache::Fill& fill) { std::memcpy(fill.to, fill.from, fill.bytes); }

  ThreadPool pool_{ThreadPoolOptions{.threads = 1, .cpus = {}}};
  device::CpuDevice device_{pool_, {}};
  model::HParams h_;
  ExpertStore store_;
};

TEST_F(ExpertCacheTest, StartsEmptyAndTakesTheBytesOfItsQuotas) {
  const std::vector<int> quotas(static_cast<std::size_t>(h_.layers), 3);
  const ExpertCache cache(device_, store_, h_.experts, quotas);
  EXPECT_EQ(cache.slots(), 3 * h_.layers);
  EXPECT_GE(cache.bytes(), 3 * store_.total_bytes() / static_cast<std::size_t>(h_.experts));
  for (int l = 0; l < h_.layers; ++l) {
    for (const std::int32_t slot : cache.table(l)) EXPECT_EQ(slot, kNotResident);
  }
}

TEST_F(ExpertCacheTest, NoSlotsIsAValidCache) {
  const std::vector<int> quotas(static_cast<std::size_t>(h_.layers), 0);
  const ExpertCache cache(device_, store_, h_.experts, quotas);
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_EQ(cache.slot_of({0, 0}), kNotResident);
}

TEST_F(ExpertCacheTest, RefusesMoreSlotsThanExperts) {
  std::vector<int> quotas(static_cast<std::size_t>(h_.layers), 0);
  quotas[4] = h_.experts + 1;
  EXPECT_THROW(ExpertCache(device_, store_, h_.experts, quotas), Error);
}

TEST_F(ExpertCacheTest, AVictimLeavesAtOnceANewcomerEntersWhenItLanded) {
  const std::vector<int> quotas(static_cast<std::size_t>(h_.layers), 1);
  ExpertCache cache(device_, store_, h_.experts, quotas);
  const ExpertCache::Fill first = cache.begin({2, 5});
  EXPECT_TRUE(cache.is_promised({2, 5}));
  EXPECT_EQ(cache.slot_of({2, 5}), kNotResident);
  copy(first);
  cache.finish(first.slot);
  EXPECT_EQ(cache.slot_of({2, 5}), first.slot);
  EXPECT_TRUE(cache.verify(store_, first.slot));

  const ExpertCache::Fill second = cache.begin({2, 9}, {2, 5});
  EXPECT_EQ(second.slot, first.slot);
  EXPECT_EQ(cache.slot_of({2, 5}), kNotResident);
  EXPECT_EQ(cache.slot_of({2, 9}), kNotResident);
  EXPECT_EQ(cache.resident(2), 0);
  EXPECT_EQ(cache.held(2), 1);
  cache.finish(second.slot);
  EXPECT_FALSE(cache.verify(store_, second.slot));  // the old bytes are still there: verify sees it
  copy(second);
  EXPECT_TRUE(cache.verify(store_, second.slot));
}

TEST_F(ExpertCacheTest, AnAbandonedFillGivesItsSlotBack) {
  const std::vector<int> quotas(static_cast<std::size_t>(h_.layers), 1);
  ExpertCache cache(device_, store_, h_.experts, quotas);
  const ExpertCache::Fill fill = cache.begin({0, 1});
  cache.abandon(fill.slot);
  EXPECT_EQ(cache.held(0), 0);
  EXPECT_FALSE(cache.is_promised({0, 1}));
  const ExpertCache::Fill again = cache.begin({0, 2});
  EXPECT_EQ(again.id, (ExpertId{0, 2}));
}

// Random swaps with copies that land late, against a plain model of what must be resident.
TEST_F(ExpertCacheTest, TableAgreesWithAModelUnderRandomSwaps) {
  std::vector<int> quotas;
  for (int l = 0; l < h_.layers; ++l) quotas.push_back(l % 5);
  ExpertCache cache(device_, store_, h_.experts, quotas);
  CopyEngine copies(device_.make_copier(), 0);
  std::mt19937 random(3);
  std::vector<std::set<int>> resident(static_cast<std::size_t>(h_.layers));
  std::vector<ExpertCache::Fill> flying;
  std::vector<std::int32_t> landed;
  for (int round = 0; round < 400; ++round) {
    const int layer = static_cast<int>(random() % static_cast<unsigned>(h_.layers));
    const ExpertId newcomer{layer, static_cast<int>(random() % static_cast<unsigned>(h_.experts))};
    auto& here = resident[static_cast<std::size_t>(layer)];
    if (cache.slot_of(newcomer) == kNotResident && !cache.is_promised(newcomer)) {
      if (cache.held(layer) < cache.quota(layer)) {
        flying.push_back(cache.begin(newcomer));
        copies.submit(flying.back());
      } else if (!here.empty()) {
        const int victim = *here.begin();
        here.erase(here.begin());
        flying.push_back(cache.begin(newcomer, {layer, victim}));
        copies.submit(flying.back());
      }
    }
    if (round % 7 == 0) copies.drain();
    landed.clear();
    copies.collect(landed);
    for (const std::int32_t slot : landed) {
      cache.finish(slot);
      const auto f = std::ranges::find(flying, slot, &ExpertCache::Fill::slot);
      ASSERT_NE(f, flying.end());
      resident[static_cast<std::size_t>(f->id.layer)].insert(f->id.expert);
      flying.erase(f);
      ASSERT_TRUE(cache.verify(store_, slot));
    }
    for (int l = 0; l < h_.layers; ++l) {
      std::set<int> seen;
      std::set<std::int32_t> slots;
      for (int e = 0; e < h_.experts; ++e) {
        const std::int32_t slot = cache.slot_of({l, e});
        if (slot == kNotResident) continue;
        seen.insert(e);
        ASSERT_TRUE(slots.insert(slot).second);
      }
      ASSERT_EQ(seen, resident[static_cast<std::size_t>(l)]);
      ASSERT_LE(cache.held(l), cache.quota(l));
    }
  }
}

TEST_F(ExpertCacheTest, CopiesKeepToTheLinksSpeed) {
  const std::vector<int> quotas(static_cast<std::size_t>(h_.layers), 8);
  ExpertCache cache(device_, store_, h_.experts, quotas);
  CopyEngine copies(device_.make_copier(), 4e6);
  const auto start = std::chrono::steady_clock::now();
  std::size_t bytes = 0;
  for (int e = 0; e < 8; ++e) {
    const ExpertCache::Fill fill = cache.begin({0, e});
    bytes += fill.bytes;
    copies.submit(fill);
  }
  copies.drain();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_GE(seconds, static_cast<double>(bytes) / 4e6 * 0.9);
}

}  // namespace
}  // namespace strata::core
