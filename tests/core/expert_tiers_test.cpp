// The two tiers against one: same bits for every set of residents, swaps in every gap.
#include "strata/core/expert_tiers.hpp"

#include "strata/core/copy_engine.hpp"
#include "strata/device/cpu_device.hpp"
#include "strata/model/hparams.hpp"
#include "strata/model/tensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace strata::core {
namespace {

class ExpertTiersTest : public ::testing::Test {
 protected:
  ExpertTiersTest() {
    const gguf::File file = gguf::File::open(STRATA_SOURCE_DIR "/data/strata-demo.gguf");
    h_ = model::read_hparams(file);
    store_ = ExpertStore::load(file, model::bind_tensors(file, h_), h_, pool_threads_, nullptr);
  }

  struct Window {
    std::vector<float> x, parts;
    std::vector<std::int32_t> ids;
    int tokens;
    [[nodiscard]] device::Rows x_rows(std::int64_t embd) { return {x.data(), tokens, embd}; }
  };
  Window make_window(std::mt19937& random, int tokens, int distinct) {
    Window w;
    w.tokens = tokens;
    std::normal_distribution<float> normal;
    w.x.resize(static_cast<std::size_t>(tokens * h_.embd));
    for (float& v : w.x) v = normal(random);
    std::vector<std::int32_t> all(static_cast<std::size_t>(distinct));
    for (int e = 0; e < distinct; ++e) all[static_cast<std::size_t>(e)] = e;
    for (int t = 0; t < tokens; ++t) {
      std::ranges::shuffle(all, random);
      w.ids.insert(w.ids.end(), all.begin(), all.begin() + h_.experts_used);
    }
    return w;
  }
  // Poisoned before: a row nobody wrote is a NaN that differs.
  std::vector<float> run(ExpertTiers& tiers, int layer, Window& w) {
    w.parts.assign(static_cast<std::size_t>(w.tokens * h_.experts_used * h_.embd),
                   std::numeric_limits<float>::quiet_NaN());
    tiers.compute(layer, w.x_rows(h_.embd), w.ids, h_.experts_used,
                  {w.parts.data(), w.tokens * h_.experts_used, h_.embd});
    return w.parts;
  }
  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), sizeof(float) * a.size()) == 0;
  }

  ThreadPool pool_threads_{ThreadPoolOptions{.threads = 2, .cpus = {}}};
  ThreadPool accelerator_threads_{ThreadPoolOptions{.threads = 2, .cpus = {}}};
  device::CpuDevice pool_{pool_threads_, {}};
  device::CpuDevice accelerator_{accelerator_threads_, {}};
  model::HParams h_;
  ExpertStore store_;
};

TEST_F(ExpertTiersTest, AnyResidentsGiveTheBitsOfNone) {
  ExpertTiers plain(store_, pool_, h_.layers, h_.experts);
  std::mt19937 random(11);
  for (const int quota : {0, 1, 7, 63, 64}) {
    const std::vector<int> quotas(static_cast<std::size_t>(h_.layers), quota);
    ExpertCache cache(accelerator_, store_, h_.experts, quotas);
    for (int l = 0; l < h_.layers; ++l) {
      for (int e = 0; e < quota; ++e) {
        const ExpertCache::Fill fill = cache.begin({l, (e * 5 + l) % h_.experts});
        std::memcpy(fill.to, fill.from, fill.bytes);
        cache.finish(fill.slot);
      }
    }
    ExpertTiers tiers(store_, pool_, h_.layers, h_.experts);
    tiers.attach(cache, accelerator_, 64 * h_.experts_used);
    std::vector<std::uint64_t> uses,
        expected_uses(static_cast<std::size_t>(h_.layers * h_.experts));
    for (const int tokens : {1, 2, 5, 8, 40}) {
      const int layer = static_cast<int>(random() % static_cast<unsigned>(h_.layers));
      Window w = make_window(random, tokens, h_.experts);
      for (const std::int32_t id : w.ids) {
        ++expected_uses[static_cast<std::size_t>(layer * h_.experts + id)];
      }
      const std::vector<float> expected = run(plain, layer, w);
      ASSERT_FALSE(std::isnan(expected.front()));
      EXPECT_TRUE(same(expected, run(tiers, layer, w)))
          << quota << " residents, " << tokens << " tokens";
    }
    TierCounts sum;
    for (int l = 0; l < h_.layers; ++l) {
      sum.hit_rows += tiers.counts(l).hit_rows;
      sum.miss_rows += tiers.counts(l).miss_rows;
      uses.insert(uses.end(), tiers.uses(l).begin(), tiers.uses(l).end());
    }
    EXPECT_EQ(sum.rows(), static_cast<std::uint64_t>((1 + 2 + 5 + 8 + 40) * h_.experts_used));
    EXPECT_EQ(uses, expected_uses);
    if (quota == 0) {
      EXPECT_EQ(sum.hit_rows, 0u);
    }
    if (quota == 64) {
      EXPECT_EQ(sum.miss_rows, 0u);
    }
  }
}

TEST_F(ExpertTiersTest, SwapsInEveryGapNeverShow) {
  ExpertTiers plain(store_, pool_, h_.layers, h_.experts);
  const std::vector<int> quotas(static_cast<std::size_t>(h_.layers), 4);
  ExpertCache cache(accelerator_, store_, h_.experts, quotas);
  ExpertTiers tiers(store_, pool_, h_.layers, h_.experts);
  tiers.attach(cache, accelerator_, 8 * h_.experts_used);
  CopyEngine copies(accelerator_.make_copier(), 0);
  std::mt19937 random(12);
  std::vector<std::int32_t> landed;
  for (int window = 0; window < 400; ++window) {
    landed.clear();
    copies.collect(landed);
    for (const std::int32_t slot : landed) cache.finish(slot);
    for (int l = 0; l < h_.layers; ++l) {
      const ExpertId newcomer{l, static_cast<int>(random() % 12)};
      if (cache.slot_of(newcomer) != kNotResident || cache.is_promised(newcomer)) continue;
      if (cache.held(l) < cache.quota(l)) {
        copies.submit(cache.begin(newcomer));
        continue;
      }
      for (int victim = 0; victim < 12; ++victim) {
        if (cache.slot_of({l, victim}) == kNotResident) continue;
        copies.submit(cache.begin(newcomer, {l, victim}));
        break;
      }
    }
    const int layer = static_cast<int>(random() % static_cast<unsigned>(h_.layers));
    Window w = make_window(random, 1 + static_cast<int>(random() % 8), 12);
    ASSERT_TRUE(same(run(plain, layer, w), run(tiers, layer, w))) << "window " << window;
  }
  std::uint64_t hits = 0;
  for (int l = 0; l < h_.layers; ++l) hits += tiers.counts(l).hit_rows;
  EXPECT_GT(hits, 0u);
}

}  // namespace
}  // namespace strata::core
