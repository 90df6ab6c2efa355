// How many of a layer's misses are fetched, and what becomes of them: staging slots, residents.
#include "strata/core/fetch.hpp"

#include "strata/core/cache_control.hpp"
#include "strata/core/expert_tiers.hpp"
#include "strata/device/cpu_device.hpp"
#include "strata/model/hparams.hpp"
#include "strata/model/tensors.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace strata::core {
namespace {

constexpr std::size_t kBlob = 1'000'000;

FetchChooser::Layer layer_of(int hits, int misses) { return {0, hits, misses, misses, kBlob}; }

TEST(FetchRequestTest, IsAutoOrAShare) {
  EXPECT_TRUE(parse_fetch_request("auto").automatic);
  EXPECT_TRUE(parse_fetch_request("0").off());
  EXPECT_EQ(parse_fetch_request("0.25").share, 0.25);
  EXPECT_EQ(parse_fetch_request("1").share, 1);
  for (const char* text : {"", "1.1", "-0.1", "nan", "25%", "automatic", "0.5 "}) {
    EXPECT_TRUE(testing::fails_with(ErrorKind::kUsage, {"--pcie-frac", "0 to 1"}, [&] {
      (void)parse_fetch_request(text);
    })) << text;
  }
}

TEST(FetchChooserTest, AShareIsMetOverTime) {
  for (const double share : {0.0, 0.1, 0.25, 0.5, 1.0}) {
    FetchChooser chooser({.automatic = false, .share = share}, 1);
    int fetched = 0;
    int misses = 0;
    for (int i = 0; i < 1000; ++i) {
      const int n = chooser.choose(layer_of(2, i % 4));
      EXPECT_GE(n, 0);
      EXPECT_LE(n, i % 4);
      fetched += n;
      misses += i % 4;
      EXPECT_NEAR(fetched, share * misses, 1.001);
    }
  }
}

TEST(FetchChooserTest, AutoFindsTheSoonestEnd) {
  FetchChooser chooser({.automatic = true}, 1);
  EXPECT_EQ(chooser.choose(layer_of(0, 6)), 0) << "the pool is measured first";
  chooser.pool_took(6, 6, 6e6, 6e-3);  // an expert a millisecond
  EXPECT_EQ(chooser.choose(layer_of(0, 6)), 1) << "then the link";
  chooser.link_took(1e6, 0.5e-3);  // twice as fast
  chooser.accelerator_took(1e9, 1e-9);
  EXPECT_EQ(chooser.choose(layer_of(0, 6)), 4) << "4 fetched and 2 computed take 2 ms each";
  EXPECT_EQ(chooser.choose(layer_of(0, 1)), 1);
  EXPECT_EQ(chooser.choose(layer_of(4, 0)), 0);
}

TEST(FetchChooserTest, AutoLeavesASlowLinkAloneButTriesItAgain) {
  FetchChooser chooser({.automatic = true}, 1);
  chooser.pool_took(1, 1, 1e6, 1e-3);
  chooser.link_took(1e6, 100e-3);
  int fetched = 0;
  for (int i = 0; i < 2000; ++i) fetched += chooser.choose(layer_of(3, 5));
  EXPECT_GE(fetched, 2);
  EXPECT_LE(fetched, 5);
}

// Prompts use the CPU longer an expert than single tokens do.
TEST(FetchChooserTest, AutoKnowsRowsOfAnExpertApart) {
  FetchChooser chooser({.automatic = true}, 1);
  chooser.pool_took(4, 4, 4e6, 0.4e-3);
  chooser.pool_took(4, 64, 4e6, 40e-3);
  chooser.link_took(1e6, 1e-3);
  EXPECT_EQ(chooser.choose({0, 0, 4, 4, kBlob}), 0);
  EXPECT_GE(chooser.choose({0, 0, 4, 64, kBlob}), 3);
}

class FetchTest : public ::testing::Test {
 protected:
  FetchTest() {
    const gguf::File file = gguf::File::open(STRATA_SOURCE_DIR "/data/strata-demo.gguf");
    h_ = model::read_hparams(file);
    store_ = ExpertStore::load(file, model::bind_tensors(file, h_), h_, threads_, nullptr);
  }
  // Parts of a window of one token that uses experts first, first + 1, ...
  std::vector<float> run(ExpertTiers& tiers, int layer, int first) {
    std::vector<float> x(static_cast<std::size_t>(h_.embd));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6.0F;
    std::vector<std::int32_t> ids;
    for (int i = 0; i < h_.experts_used; ++i) ids.push_back((first + i) % h_.experts);
    std::vector<float> parts(static_cast<std::size_t>(h_.experts_used * h_.embd), NAN);
    tiers.compute(layer, {x.data(), 1, h_.embd}, ids, h_.experts_used,
                  {parts.data(), h_.experts_used, h_.embd});
    return parts;
  }
  [[nodiscard]] std::vector<int> quotas(int quota) const {
    return std::vector<int>(static_cast<std::size_t>(h_.layers), quota);
  }

  ThreadPool threads_{ThreadPoolOptions{.threads = 1, .cpus = {}}};
  ThreadPool accelerator_threads_{ThreadPoolOptions{.threads = 1, .cpus = {}}};
  device::CpuDevice pool_{threads_, {}};
  device::CpuDevice accelerator_{accelerator_threads_, {}};
  model::HParams h_;
  ExpertStore store_;
};

// More misses than staging slots: they take turns.
TEST_F(FetchTest, AnyShareGivesTheBitsOfThePool) {
  ExpertTiers plain(store_, pool_, h_.layers, h_.experts);
  for (const int slots : {1, 3, 8}) {
    for (const double share : {0.25, 0.5, 1.0}) {
      ExpertCache cache(accelerator_, store_, h_.experts, quotas(0), slots);
      ExpertTiers tiers(store_, pool_, h_.layers, h_.experts);
      tiers.attach(cache, accelerator_, h_.experts_used);
      tiers.fetch({.automatic = false, .share = share}, 0);
      for (int layer = 0; layer < h_.layers; ++layer) {
        for (const int first : {0, 5}) {
          const std::vector<float> expected = run(plain, layer, first);
          const std::vector<float> found = run(tiers, layer, first);
          ASSERT_EQ(std::memcmp(expected.data(), found.data(), sizeof(float) * found.size()), 0);
        }
      }
      const TierCounts total = tiers.total();
      const auto uses = static_cast<std::uint64_t>(2 * h_.layers * h_.experts_used);
      EXPECT_EQ(total.rows(), uses);
      EXPECT_EQ(total.fetch_rows, static_cast<std::uint64_t>(share * static_cast<double>(uses)));
      EXPECT_EQ(total.fetch_bytes, total.fetch_experts * store_.layout(0).bytes());
      EXPECT_GT(total.fetch_seconds, 0);
    }
  }
}

TEST_F(FetchTest, AStagedExpertBecomesResidentWithoutACopy) {
  ExpertCache cache(accelerator_, store_, h_.experts, quotas(1), 2);
  EXPECT_EQ(cache.slots(), h_.layers);
  EXPECT_EQ(cache.all_slots(), h_.layers + 2);
  const auto fetch = [&](int expert) {
    const ExpertCache::Fill fill = cache.stage({1, expert});
    std::memcpy(fill.to, fill.from, fill.bytes);
    return fill.slot;
  };
  const std::int32_t first = fetch(7);
  const std::int32_t second = fetch(9);
  EXPECT_EQ(cache.slot_of({1, 7}), kNotResident) << "only adopt() makes a resident";
  std::vector<std::pair<std::int32_t, ExpertId>> staged;
  cache.staged(staged);
  EXPECT_EQ(staged.size(), 2U);
  cache.adopt(first);
  EXPECT_EQ(cache.slot_of({1, 7}), first);
  EXPECT_TRUE(cache.verify(store_, first));
  EXPECT_EQ(cache.held(1), 1);
  EXPECT_EQ(cache.resident(1), 1);
  cache.adopt(second, {1, 7});
  EXPECT_EQ(cache.slot_of({1, 7}), kNotResident);
  EXPECT_EQ(cache.slot_of({1, 9}), second);
  EXPECT_TRUE(cache.verify(store_, second));
  EXPECT_EQ(cache.held(1), 1);
  EXPECT_EQ(cache.staging(1), 2) << "slots change places, none is lost";
  cache.forget_staged();
  staged.clear();
  cache.staged(staged);
  EXPECT_TRUE(staged.empty());
  // All slots of the other layers can still be filled.
  for (int layer = 0; layer < h_.layers; ++layer) {
    if (layer != 1) cache.finish(cache.begin({layer, 3}).slot);
  }
  // And what is staged next takes no resident's slot.
  for (int expert = 20; expert < 24; ++expert) {
    const std::int32_t slot = fetch(expert);
    for (int layer = 0; layer < h_.layers; ++layer) {
      EXPECT_NE(cache.slot_of({layer, layer == 1 ? 9 : 3}), slot);
    }
  }
}

class AdmissionTest : public FetchTest {
 protected:
  // One token after another that all use the same experts of layer 0, with every miss fetched.
  SwapCounts serve(PolicyKind kind, int quota, int tokens, int shift_after = 1 << 20) {
    cache_ = std::make_unique<ExpertCache>(accelerator_, store_, h_.experts, quotas(quota), 8);
    CopyEngine copies(accelerator_.make_copier(), 1);  // a byte a second: nothing is copied in
    CacheControl control(*cache_, store_, copies, nullptr,
                         {.policy = {.kind = kind}, .adapt_every = 1 << 20});
    ExpertTiers tiers(store_, pool_, h_.layers, h_.experts);
    tiers.attach(*cache_, accelerator_, h_.experts_used);
    tiers.fetch({.automatic = false, .share = 1}, 0);
    const ExpertGeometry geometry{h_.layers, h_.experts};
    WindowRouting routing(geometry, h_.experts_used, 1);
    const std::vector<float> weights(static_cast<std::size_t>(h_.experts_used), 0.125F);
    for (int t = 0; t < tokens; ++t) {
      const int first = t < shift_after ? 0 : 16;
      (void)run(tiers, 0, first);
      std::vector<std::int32_t> ids;
      for (int i = 0; i < h_.experts_used; ++i) ids.push_back(first + i);
      routing.clear();
      routing.add(0, ids, weights);
      control.after_window(routing, 1e9, 1e9);
    }
    hits_ = tiers.total().hit_rows;
    return control.swaps();
  }
  std::unique_ptr<ExpertCache> cache_;
  std::uint64_t hits_ = 0;
};

TEST_F(AdmissionTest, WhatIsFetchedFillsFreeSlotsAndServes) {
  const SwapCounts swaps = serve(PolicyKind::kLru, 8, 10);
  EXPECT_EQ(swaps.admitted, 8U);
  EXPECT_EQ(swaps.admitted_useful, 8U);
  EXPECT_EQ(swaps.copies, 0U);
  EXPECT_EQ(hits_, 9U * 8);
}

TEST_F(AdmissionTest, ItReplacesWhatThePolicyThinksColder) {
  const SwapCounts swaps = serve(PolicyKind::kLru, 8, 10, 5);
  EXPECT_EQ(swaps.admitted, 16U);
  EXPECT_NE(cache_->slot_of({0, 16}), kNotResident);
  EXPECT_EQ(cache_->slot_of({0, 0}), kNotResident);
  EXPECT_EQ(cache_->resident(0), 8);
  EXPECT_EQ(serve(PolicyKind::kFill, 8, 10, 5).admitted, 8U) << "free slots only";
  EXPECT_EQ(serve(PolicyKind::kNone, 8, 10).admitted, 0U);
}

}  // namespace
}  // namespace strata::core
