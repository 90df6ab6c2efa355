#include "strata/core/planner.hpp"

#include "strata/base/error.hpp"

#include <gtest/gtest.h>

#include <string>

namespace strata::core {
namespace {

constexpr std::uint64_t kMiB = 1ull << 20;
constexpr std::uint64_t kGiB = 1ull << 30;

// Qwen3-30B-A3B in Q4: 48 layers x 128 experts of 2.8 MB.
PlanInput model_30b() {
  PlanInput in;
  in.accelerator_bytes = 12 * kGiB;
  in.ram_bytes = 64 * kGiB;
  in.reserve_bytes = 700 * kMiB;
  in.dense_bytes = 850 * kMiB;
  in.kv_bytes_per_position = 98304;
  in.context = 16384;
  in.activation_bytes = 200 * kMiB;
  in.staging_bytes = 64 * kMiB;
  in.slot_bytes.assign(48, 2800000);
  in.experts = 128;
  in.cache = {CacheRequest::Kind::kAuto, 0};
  return in;
}

TEST(PlannerTest, AutoTakesWhatIsLeftToTheByte) {
  const PlanInput in = model_30b();
  const Plan plan = make_plan(in);
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.accelerator_needed, in.accelerator_bytes);
  EXPECT_NEAR(plan.resident_share, 0.53, 0.03);
  EXPECT_NE(format_plan(in, plan).find("\nFITS\n"), std::string::npos);
}

TEST(PlannerTest, AutoTakesWhatIsReallyLeftAfterLoading) {
  const PlanInput in = model_30b();
  Plan plan = make_plan(in);
  const Plan planned = plan;
  const std::uint64_t kv = in.kv_bytes_per_position * 16384;
  EXPECT_EQ(plan.after_cache_bytes, kv + in.staging_bytes + in.reserve_bytes);
  const std::uint64_t loaded = in.dense_bytes + in.activation_bytes;
  EXPECT_FALSE(refit_cache(plan, in.cache, in.accelerator_bytes - loaded));
  EXPECT_EQ(plan.cache_bytes, planned.cache_bytes);
  EXPECT_TRUE(refit_cache(plan, in.cache, in.accelerator_bytes - loaded - kGiB));
  EXPECT_EQ(plan.cache_bytes, planned.cache_bytes - kGiB);
  EXPECT_LT(plan.cache_slots, planned.cache_slots);
  EXPECT_TRUE(refit_cache(plan, in.cache, kMiB));
  EXPECT_EQ(plan.cache_bytes, 0u);

  plan = planned;
  EXPECT_THROW(refit_cache(plan, {CacheRequest::Kind::kBytes, planned.cache_bytes}, kGiB), Error);
}

TEST(PlannerTest, AutoTakesNoMoreThanAllExperts) {
  PlanInput in = model_30b();
  in.accelerator_bytes = 140 * kGiB;
  const Plan plan = make_plan(in);
  EXPECT_EQ(plan.cache_bytes, 48ull * 128 * 2800000);
  EXPECT_EQ(plan.cache_slots, 48u * 128);
  EXPECT_EQ(plan.resident_share, 1.0);
}

TEST(PlannerTest, APolicysTablesTakeRam) {
  PlanInput in = model_30b();
  const Plan without = make_plan(in);
  in.policy_bytes = 3 * kGiB;
  const Plan with = make_plan(in);
  EXPECT_EQ(with.ram_needed, without.ram_needed + 3 * kGiB);
  EXPECT_NE(format_plan(in, with).find("cache policy's tables"), std::string::npos);
  in.ram_bytes = without.ram_needed + kGiB;
  const Plan refused = make_plan(in);
  EXPECT_FALSE(refused.fits);
  EXPECT_NE(format_plan(in, refused).find("try --cache-policy default"), std::string::npos);
  in.accelerator = AcceleratorKind::kNone;  // no cache, no policy
  EXPECT_EQ(make_plan(in).ram_needed, without.ram_needed - in.staging_bytes + in.dense_bytes +
                                          in.activation_bytes + 98304ull * 16384);
}

TEST(PlannerTest, ARequestThatCannotBeMetSaysWhatWouldFit) {
  PlanInput in = model_30b();
  in.cache = {CacheRequest::Kind::kBytes, 11 * kGiB};
  const Plan plan = make_plan(in);
  EXPECT_FALSE(plan.fits);
  const std::string text = format_plan(in, plan);
  EXPECT_NE(text.find("DOES NOT FIT: the accelerator needs"), std::string::npos) << text;
  EXPECT_NE(text.find("try --expert-cache auto"), std::string::npos) << text;
}

TEST(PlannerTest, AContextThatIsTooLongIsAnsweredWithOneThatFits) {
  PlanInput in = model_30b();
  in.accelerator_bytes = 4 * kGiB;
  in.context = 40960;
  const Plan plan = make_plan(in);
  EXPECT_FALSE(plan.fits);
  ASSERT_FALSE(plan.advice.empty());
  ASSERT_EQ(plan.advice.front().substr(0, 3), "-c ");
  in.context = std::stoi(plan.advice.front().substr(3));
  EXPECT_TRUE(make_plan(in).fits);
  in.context += 16;
  EXPECT_FALSE(make_plan(in).fits);
}

TEST(PlannerTest, TooLittleRamIsSaid) {
  PlanInput in = model_30b();
  in.ram_bytes = 8 * kGiB;
  const Plan plan = make_plan(in);
  EXPECT_FALSE(plan.fits);
  EXPECT_NE(format_plan(in, plan).find("RAM needs"), std::string::npos);
  EXPECT_NE(format_plan(in, plan).find("--experts-on-disk"), std::string::npos);
  in.experts_on_disk = true;
  EXPECT_TRUE(make_plan(in).fits);
}

TEST(PlannerTest, AStandInsArenaIsRamToo) {
  PlanInput in = model_30b();
  in.accelerator = AcceleratorKind::kStandIn;
  in.accelerator_bytes = 0;
  in.ram_bytes = 20 * kGiB;
  Plan plan = make_plan(in);
  EXPECT_TRUE(plan.fits);
  EXPECT_GT(plan.cache_bytes, 0U);
  EXPECT_LE(plan.ram_needed, in.ram_bytes);
  in.cache = {CacheRequest::Kind::kBytes, 4 * kGiB};
  plan = make_plan(in);
  EXPECT_FALSE(plan.fits);
  EXPECT_NE(format_plan(in, plan).find("try --expert-cache auto"), std::string::npos);
}

TEST(PlannerTest, WithoutAnAcceleratorAllIsInRam) {
  PlanInput in = model_30b();
  in.accelerator = AcceleratorKind::kNone;
  in.cache = {};
  const Plan plan = make_plan(in);
  EXPECT_TRUE(plan.fits);
  EXPECT_TRUE(plan.accelerator.empty());
  EXPECT_EQ(plan.ram_needed, 48ull * 128 * 2800000 + in.dense_bytes + in.activation_bytes +
                                 in.kv_bytes_per_position * 16384);
}

TEST(PlannerTest, SlotsAreCountedInTheAverageSize) {
  PlanInput in = model_30b();
  in.cache = {CacheRequest::Kind::kSlots, 960};
  const Plan plan = make_plan(in);
  EXPECT_EQ(plan.cache_bytes, 960ull * 2800000);
  EXPECT_EQ(plan.cache_slots, 960u);
}

TEST(PlannerTest, ReadsSizesAndRequests) {
  EXPECT_EQ(parse_size("8GiB"), 8 * kGiB);
  EXPECT_EQ(parse_size("700MiB"), 700 * kMiB);
  EXPECT_EQ(parse_size("1.5GB"), 1500000000u);
  EXPECT_EQ(parse_size("4096"), 4096u);
  EXPECT_EQ(parse_cache_request("auto").kind, CacheRequest::Kind::kAuto);
  EXPECT_EQ(parse_cache_request("0").kind, CacheRequest::Kind::kNone);
  EXPECT_EQ(parse_cache_request("96").amount, 96u);
  EXPECT_EQ(parse_cache_request("2GiB").amount, 2 * kGiB);
  for (const char* bad : {"", "much", "-3", "12 GiB", "3.5", "1e40GiB", "nan", "7Gib"}) {
    EXPECT_THROW(static_cast<void>(parse_cache_request(bad)), Error) << bad;
  }
}

}  // namespace
}  // namespace strata::core
