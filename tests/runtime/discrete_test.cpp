// The forward pass on a device with memory of its own, experts on it and on the CPU: the bits of a
// CPU alone. A read or write past the device's operations ends the test program.
#include "tests/support/discrete_device.hpp"

#include "strata/core/copy_engine.hpp"
#include "strata/core/expert_cache.hpp"
#include "strata/runtime/expert_caching.hpp"
#include "strata/runtime/forward.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace strata::runtime {
namespace {

using testing::DiscreteDevice;
using testing::TinyModel;
using testing::TinyShape;

constexpr int kContext = 64;

// Reads a text of 40 tokens: windows of 9 and 8 with some logits wanted, then one by one.
std::vector<float> read(const Model& model, device::Device& device, Forward& forward) {
  const SequenceState sequence(model, device, kContext, device::KvType::kF16);
  std::vector<float> all;
  int position = 0;
  const auto window = [&](int tokens) {
    std::vector<WindowToken> w;
    for (int i = 0; i < tokens; ++i, ++position)
      w.push_back({37 * position % 256, position, &sequence, i % 3 == 2 || i + 1 == tokens});
    const device::Rows logits = forward.run(w);
    for (int i = 0; i < logits.count; ++i)
      all.insert(all.end(), logits.row(i), logits.row(i) + model.h.vocab);
  };
  window(9);
  window(8);
  while (position < 40) window(1);
  return all;
}

class DiscreteTest : public ::testing::Test {
 protected:
  ThreadPool threads_{ThreadPoolOptions{.threads = 2, .cpus = {}}};
  ThreadPool device_threads_{ThreadPoolOptions{.threads = 1, .cpus = {}}};
  device::CpuDevice cpu_{threads_, {}};
  DiscreteDevice device_{device_threads_};
};

class DiscreteBits : public DiscreteTest, public ::testing::WithParamInterface<int> {};

// The parameter: experts resident in each layer, of 6.
TEST_P(DiscreteBits, AreACpus) {
  const auto bytes = TinyModel(TinyShape{}).bytes();
  const gguf::File file = gguf::test::parse(bytes);
  const Model on_cpu = load_model(file, kContext, cpu_, threads_, nullptr);
  Forward cpu_forward(on_cpu, cpu_, 16);
  const std::vector<float> expected = read(on_cpu, cpu_, cpu_forward);

  const Model model = load_model(file, kContext, device_, threads_, nullptr);
  const std::vector<int> quotas(static_cast<std::size_t>(model.h.layers), GetParam());
  core::ExpertCache cache(device_, model.experts, model.h.experts, quotas, 2);
  for (int layer = 0; layer < model.h.layers; ++layer) {
    for (int e = 0; e < GetParam(); ++e) {
      const core::ExpertCache::Fill fill = cache.begin({layer, (e * 5 + layer) % model.h.experts});
      device_.copy_from_host(fill.to, fill.from, fill.bytes);
      cache.finish(fill.slot);
    }
  }
  Forward forward(model, device_, cpu_, 16);
  forward.tiers().attach(cache, device_, 16 * model.h.experts_used);
  const std::vector<float> logits = read(model, device_, forward);
  ASSERT_EQ(logits.size(), expected.size());
  EXPECT_EQ(std::memcmp(logits.data(), expected.data(), sizeof(float) * logits.size()), 0);
  forward.tiers().fetch({.automatic = false, .share = 0.5}, 0);
  const std::vector<float> with_fetches = read(model, device_, forward);
  EXPECT_EQ(std::memcmp(with_fetches.data(), expected.data(), sizeof(float) * logits.size()), 0);
  const core::TierCounts total = forward.tiers().total();
  EXPECT_EQ(total.fetch_rows > 0, GetParam() < model.h.experts);
  EXPECT_EQ(total.hit_rows > 0, GetParam() > 0);
  EXPECT_EQ(total.miss_rows > 0, GetParam() < model.h.experts);
}

// Other programs take memory between the plan and the arena.
TEST_F(DiscreteTest, ASmallerCacheWhereLessIsLeftThanWasPlanned) {
  const auto bytes = TinyModel(TinyShape{}).bytes();
  const gguf::File file = gguf::test::parse(bytes);
  const Model model = load_model(file, kContext, device_, threads_, nullptr);
  const auto slot = core::ExpertCache::slot_bytes(model.experts.layout(0));
  core::Plan plan;
  plan.cache_bytes = slot * 12;
  plan.after_cache_bytes = 1000;
  device_.free = slot * 7 + 1000;

  CacheOptions options;
  options.size.kind = core::CacheRequest::Kind::kAuto;
  Forward forward(model, device_, cpu_, 16);
  ExpertCaching caching(options, model.h, &device_, {});
  caching.attach(model, forward, plan, nullptr);
  EXPECT_EQ(caching.cache().slots(), 7);
  EXPECT_EQ(caching.plan().cache_bytes, slot * 7);
  EXPECT_EQ(caching.planned_bytes(), slot * 12);

  options.size = {core::CacheRequest::Kind::kBytes, slot * 12};
  ExpertCaching asked(options, model.h, &device_, {});
  EXPECT_TRUE(testing::fails_with(ErrorKind::kResource, {"no longer fits"},
                                  [&] { asked.attach(model, forward, plan, nullptr); }));
}

INSTANTIATE_TEST_SUITE_P(Residents, DiscreteBits, ::testing::Values(0, 1, 3, 6));

}  // namespace
}  // namespace strata::runtime
