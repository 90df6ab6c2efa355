// Stress of the hand-over between the tiers: windows of every kind, with swaps in every gap, each
// compared with the pool alone. A test runs it for seconds; for longer, under ThreadSanitizer too:
//     strata_tiers_stress SECONDS [SEED]
#include "strata/base/clock.hpp"
#include "strata/core/copy_engine.hpp"
#include "strata/core/expert_tiers.hpp"
#include "strata/device/cpu_device.hpp"
#include "strata/model/hparams.hpp"
#include "strata/model/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace strata::core {
namespace {

struct Model {
  model::HParams h;
  ExpertStore store;
};

Model load_demo() {
  ThreadPool threads({.threads = 1, .cpus = {}});
  const gguf::File file = gguf::File::open(STRATA_SOURCE_DIR "/data/strata-demo.gguf");
  Model m;
  m.h = model::read_hparams(file);
  m.store = ExpertStore::load(file, model::bind_tensors(file, m.h), m.h, threads, nullptr);
  return m;
}

struct Counts {
  std::uint64_t scenarios = 0, windows = 0, swaps = 0, adopted = 0, differing = 0;
  TierCounts tiers;
};

// One cache, one pool, one accelerator: a few dozen windows.
class Scenario {
 public:
  Scenario(const Model& m, std::mt19937& random)
      : m_(m),
        random_(random),
        pool_threads_({.threads = pick(1, 3), .cpus = {}}),
        accelerator_threads_({.threads = pick(1, 2), .cpus = {}}),
        copies_(accelerator_.make_copier(), pick(0, 1) == 0 ? 0 : 1e6 * pick(5, 500)),
        cache_(accelerator_, m.store, m.h.experts, quotas(), pick(1, 3)),
        tiers_(m.store, pool_, m.h.layers, m.h.experts),
        plain_(m.store, pool_, m.h.layers, m.h.experts) {
    tiers_.attach(cache_, accelerator_, kMostTokens * m.h.experts_used);
    tiers_.fetch({.automatic = pick(0, 1) == 0, .share = 0.5 * pick(0, 2)}, 0);
    if (quota_ == m.h.experts && pick(0, 1) == 0) fill_all();
  }
  ~Scenario() { copies_.stop(); }  // in whatever state they are
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;

  void run(Counts& counts) {
    const int windows = pick(1, 60);
    for (int i = 0; i < windows; ++i) {
      swap(counts);
      counts.differing += window() ? 0 : 1;
      ++counts.windows;
    }
    counts.tiers += tiers_.total();
    ++counts.scenarios;
  }

 private:
  static constexpr int kMostTokens = 8;

  int pick(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  // No slot, one, fewer than a token uses, any number, all.
  std::vector<int> quotas() {
    const int kinds[] = {0, 1, m_.h.experts_used / 2, pick(1, m_.h.experts), m_.h.experts};
    quota_ = kinds[pick(0, 4)];
    return std::vector<int>(static_cast<std::size_t>(m_.h.layers), quota_);
  }

  void fill_all() {
    for (int layer = 0; layer < m_.h.layers; ++layer) {
      for (int e = 0; e < m_.h.experts; ++e) copies_.submit(cache_.begin({layer, e}));
    }
    copies_.drain();
    land();
  }

  void land() {
    landed_.clear();
    copies_.collect(landed_);
    for (const std::int32_t slot : landed_) {
      if (pick(0, 30) == 0) {
        cache_.abandon(slot);
      } else {
        cache_.finish(slot);
      }
    }
  }

  // What the last window fetched stays, or not.
  void adopt(Counts& counts) {
    fetched_.clear();
    cache_.staged(fetched_);
    for (const auto& [slot, id] : fetched_) {
      if (cache_.slot_of(id) != kNotResident || cache_.is_promised(id) || pick(0, 1) == 0) continue;
      if (cache_.held(id.layer) < cache_.quota(id.layer)) {
        cache_.adopt(slot);
      } else {
        const auto table = cache_.table(id.layer);
        const auto victim = std::ranges::find_if(table, [](std::int32_t s) { return s >= 0; });
        if (victim == table.end()) continue;
        cache_.adopt(slot, {id.layer, static_cast<int>(victim - table.begin())});
      }
      ++counts.adopted;
    }
    cache_.forget_staged();
  }

  void swap(Counts& counts) {
    land();
    adopt(counts);
    for (int i = pick(0, 6); i > 0; --i) {
      const int layer = pick(0, m_.h.layers - 1);
      const ExpertId newcomer{layer, pick(0, m_.h.experts - 1)};
      if (quota_ == 0 || cache_.slot_of(newcomer) != kNotResident || cache_.is_promised(newcomer))
        continue;
      if (cache_.held(layer) < cache_.quota(layer)) {
        copies_.submit(cache_.begin(newcomer));
        ++counts.swaps;
        continue;
      }
      const auto table = cache_.table(layer);
      const auto victim = std::ranges::find_if(table, [](std::int32_t s) { return s >= 0; });
      if (victim == table.end()) continue;
      copies_.submit(cache_.begin(newcomer, {layer, static_cast<int>(victim - table.begin())}));
      ++counts.swaps;
    }
  }

  // Whether both ways give the same bits. Results are poisoned before: a row that nobody wrote is a
  // NaN that differs.
  bool window() {
    const int tokens = pick(1, kMostTokens);
    const int used = pick(0, 3) == 0 ? 1 : m_.h.experts_used;
    const int layer = pick(0, m_.h.layers - 1);
    const int distinct = pick(0, 2) == 0 ? used : m_.h.experts;  // all tokens alike, or any
    std::vector<std::int32_t> all(static_cast<std::size_t>(m_.h.experts));
    std::iota(all.begin(), all.end(), 0);
    std::ranges::shuffle(all, random_);
    std::vector<std::int32_t> ids;
    for (int t = 0; t < tokens; ++t) {
      std::shuffle(all.begin(), all.begin() + distinct, random_);
      ids.insert(ids.end(), all.begin(), all.begin() + used);
    }
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<std::size_t>(tokens * m_.h.embd));
    for (float& v : x) v = normal(random_);
    const auto compute = [&](ExpertTiers& tiers) {
      std::vector<float> parts(static_cast<std::size_t>(tokens * used * m_.h.embd),
                               std::numeric_limits<float>::quiet_NaN());
      tiers.compute(layer, {x.data(), tokens, m_.h.embd}, ids, used,
                    {parts.data(), tokens * used, m_.h.embd});
      return parts;
    };
    const std::vector<float> expected = compute(plain_);
    const std::vector<float> got = compute(tiers_);
    return std::memcmp(expected.data(), got.data(), sizeof(float) * got.size()) == 0;
  }

  const Model& m_;
  std::mt19937& random_;
  int quota_ = 0;
  ThreadPool pool_threads_, accelerator_threads_;
  device::CpuDevice pool_{pool_threads_, {}}, accelerator_{accelerator_threads_, {}};
  CopyEngine copies_;
  ExpertCache cache_;
  ExpertTiers tiers_, plain_;
  std::vector<std::int32_t> landed_;
  std::vector<std::pair<std::int32_t, ExpertId>> fetched_;
};

void print(const Counts& c, double seconds) {
  fmt::print(
      "{:6.0f} s: {} scenarios, {} windows, {} swaps, {} adopted, {} expert rows hit, {} missed "
      "and {} fetched; {} windows differ\n",
      seconds, c.scenarios, c.windows, c.swaps, c.adopted, c.tiers.hit_rows, c.tiers.miss_rows,
      c.tiers.fetch_rows, c.differing);
  std::fflush(stdout);
}

int stress(double seconds, unsigned seed) {
  const Model model = load_demo();
  std::mt19937 random(seed);
  Counts counts;
  const Stopwatch watch;
  for (double told = 0; watch.seconds() < seconds;) {
    Scenario(model, random).run(counts);
    if (watch.seconds() - told < 30) continue;
    told = watch.seconds();
    print(counts, told);
  }
  print(counts, watch.seconds());
  const bool all_kinds =
      counts.tiers.hit_rows > 0 && counts.tiers.miss_rows > 0 && counts.adopted > 0;
  return counts.differing == 0 && all_kinds ? 0 : 1;
}

}  // namespace
}  // namespace strata::core

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  const auto seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1U;
  return strata::core::stress(seconds, seed);
}
