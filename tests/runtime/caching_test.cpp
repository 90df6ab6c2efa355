// An engine with an expert cache: the same bits, whatever is resident; and what it writes.
#include "strata/core/trace.hpp"
#include "strata/runtime/engine.hpp"
#include "strata/runtime/expert_caching.hpp"
#include "tests/gguf/temp_folder.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace strata {
namespace {

using testing::fails_with;
using testing::TinyModel;
using testing::TinyShape;

class CachingTest : public ::testing::Test {
 protected:
  CachingTest() : model_(TinyShape{.layers = 3, .experts = 12, .used = 3}) {
    options_.model = folder_ / "tiny.gguf";
    options_.threads = 2;
    options_.pin_threads = false;
    model_.write(options_.model);
  }
  void use_cache(std::uint64_t slots) {
    options_.cache.size = {core::CacheRequest::Kind::kSlots, slots};
    options_.cache.adapt_every = 1;
  }
  // Logits of a text read as a prompt of 9 tokens and 30 single ones.
  static std::vector<float> read(Engine& engine) {
    const std::unique_ptr<Session> session = engine.new_session();
    std::vector<float> logits;
    std::vector<std::int32_t> prompt;
    for (int i = 0; i < 9; ++i) prompt.push_back(17 * i % 256);
    session->feed(prompt);
    logits.assign(session->logits().begin(), session->logits().end());
    for (int i = 0; i < 30; ++i) {
      const std::int32_t token = 31 * i % 256;
      session->feed({&token, 1});
      logits.insert(logits.end(), session->logits().begin(), session->logits().end());
    }
    return logits;
  }
  std::vector<nlohmann::json> audit_records() {
    std::vector<nlohmann::json> records;
    std::ifstream file(options_.audit);
    for (std::string line; std::getline(file, line);)
      records.push_back(nlohmann::json::parse(line));
    return records;
  }

  gguf::test::TempFolder folder_;
  TinyModel model_;
  EngineOptions options_;
};

TEST_F(CachingTest, NoSizePolicyOrPaceChangesABit) {
  const std::vector<float> expected = read(*Engine::load(options_));
  using enum core::PolicyKind;
  for (const std::uint64_t slots : {0, 1, 5, 18, 35, 36, 99}) {
    for (const core::PolicyKind policy :
         {kNone, kFill, kLru, kLfu, kLfru, kMixture, kDefault, kPairs}) {
      use_cache(slots);
      options_.cache.policy.kind = policy;
      options_.cache.adapt_every = slots % 2 == 0 ? 1 : 7;
      const std::unique_ptr<Engine> engine = Engine::load(options_);
      // Until copies have landed and served, which takes a busy machine a while.
      const bool hits = policy != kNone && slots >= 18;
      int readings = 0;
      do {
        const std::vector<float> logits = read(*engine);
        ASSERT_EQ(logits.size(), expected.size());
        ASSERT_EQ(std::memcmp(logits.data(), expected.data(), sizeof(float) * logits.size()), 0)
            << slots << " slots, policy " << core::policy_name(policy);
        ++readings;
      } while (hits && engine->tiers().total().hit_rows == 0 && readings < 1000);
      const core::TierCounts total = engine->tiers().total();
      EXPECT_EQ(total.rows(), static_cast<unsigned>(readings) * (39U * 3 * 2 + (1 + 30) * 3))
          << "the last layer's prompt is one row";
      EXPECT_EQ(total.hit_rows > 0, hits || (total.hit_rows > 0 && slots > 0 && policy != kNone));
    }
  }
}

TEST_F(CachingTest, NoShareOfFetchedMissesChangesABit) {
  const std::vector<float> expected = read(*Engine::load(options_));
  for (const std::uint64_t slots : {1, 9, 20}) {
    for (const char* share : {"0", "0.25", "1", "auto"}) {
      use_cache(slots);
      options_.cache.fetch = core::parse_fetch_request(share);
      const std::unique_ptr<Engine> engine = Engine::load(options_);
      for (int i = 0; i < 3; ++i) {
        const std::vector<float> logits = read(*engine);
        ASSERT_EQ(std::memcmp(logits.data(), expected.data(), sizeof(float) * logits.size()), 0)
            << slots << " slots, " << share << " fetched";
      }
      const core::TierCounts total = engine->tiers().total();
      EXPECT_EQ(total.rows(), 3U * (39U * 3 * 2 + (1 + 30) * 3));
      if (share == std::string("0")) {
        EXPECT_EQ(total.fetch_rows, 0U);
      } else {
        EXPECT_GT(total.fetch_rows, 0U) << share;
      }
      if (share == std::string("1")) {
        EXPECT_EQ(total.miss_rows, 0U);
        // With one slot, later layers may have taken the staging slots of its layer.
        if (slots > 1) {
          EXPECT_GT(engine->caching()->control().swaps().admitted, 0U) << slots;
        }
      }
    }
  }
}

TEST_F(CachingTest, SlotsAreSharedByLayersAndNeverMoreThanThereAreExperts) {
  use_cache(20);
  const std::unique_ptr<Engine> engine = Engine::load(options_);
  const core::ExpertCache& cache = engine->caching()->cache();
  EXPECT_EQ(cache.slots(), 20);
  EXPECT_EQ(cache.quota(0), 7);
  EXPECT_EQ(cache.quota(2), 6);
  use_cache(1000);
  EXPECT_EQ(Engine::load(options_)->caching()->cache().slots(), 36);
  options_.cache.size = {core::CacheRequest::Kind::kAuto, 0};
  EXPECT_EQ(Engine::load(options_)->caching()->cache().slots(), 36) << "all of them fit";
}

TEST_F(CachingTest, ALimitThatLeavesNoRoomIsRefusedWithAWayOut) {
  use_cache(20);
  options_.cache.accelerator_limit = 64 << 20;
  EXPECT_TRUE(fails_with(ErrorKind::kResource,
                         {"DOES NOT FIT", "the accelerator needs", "--vram-reserve-mib"},
                         [this] { (void)Engine::load(options_); }));
  options_.cache.reserve_bytes = 0;
  EXPECT_EQ(Engine::load(options_)->caching()->cache().slots(), 20);
}

TEST_F(CachingTest, WhatWasLearnedWarmsTheNextStart) {
  use_cache(9);
  options_.cache.save_profile = folder_ / "learned.strp";
  const std::unique_ptr<Engine> first = Engine::load(options_);
  const std::vector<float> expected = read(*first);
  EXPECT_FALSE(std::filesystem::exists(options_.cache.save_profile)) << "not before the end";
  first->finish();

  options_.cache.profile = options_.cache.save_profile;
  const std::unique_ptr<Engine> second = Engine::load(options_);
  EXPECT_EQ(second->caching()->control().swaps().prefilled, 9U);
  const std::vector<float> logits = read(*second);
  EXPECT_EQ(std::memcmp(logits.data(), expected.data(), sizeof(float) * logits.size()), 0);
  EXPECT_GT(second->caching()->control().hits_profile(0), 0U);
}

TEST_F(CachingTest, TheLoadRecordNamesTheProfilesBytes) {
  use_cache(9);
  options_.cache.profile = folder_ / "given.strp";
  core::write_profile(options_.cache.profile, core::Profile{{3, 12}, 0, {{0, 1}, {2, 5}}});
  const std::string sha256 = core::read_profile(options_.cache.profile).sha256;
  options_.audit = folder_ / "audit.jsonl";
  const std::unique_ptr<Engine> engine = Engine::load(options_);
  const nlohmann::json record = audit_records().at(0).at("profile");
  EXPECT_EQ(record.at("sha256"), sha256);
  EXPECT_EQ(record.at("path"), options_.cache.profile.string());
  EXPECT_GT(record.at("bytes"), 0);
}

TEST_F(CachingTest, ThePlanCountsTheTablesOfPairs) {
  use_cache(9);
  const auto ram = [&](core::PolicyKind kind) {
    options_.cache.policy.kind = kind;
    return Engine::load(options_)->caching()->plan().ram_needed;
  };
  EXPECT_EQ(ram(core::PolicyKind::kPairs) - ram(core::PolicyKind::kDefault), 3U * 12 * 12 * 4);
}

TEST_F(CachingTest, ForeignCutAndMissingProfilesAreRefused) {
  use_cache(9);
  options_.cache.profile = folder_ / "none.strp";
  const auto load = [this] { (void)Engine::load(options_); };
  EXPECT_TRUE(fails_with(ErrorKind::kIo, {"none.strp"}, load));
  options_.cache.profile = folder_ / "foreign.strp";
  core::write_profile(options_.cache.profile, core::Profile{{3, 13}, 0, {}});
  EXPECT_TRUE(fails_with(ErrorKind::kInput, {"foreign.strp", "13"}, load));
  std::ofstream(folder_ / "cut.strp") << "STRP";
  options_.cache.profile = folder_ / "cut.strp";
  EXPECT_TRUE(fails_with(ErrorKind::kInput, {"cut.strp"}, load));
  options_.cache.profile.clear();
  options_.cache.policy.kind = core::PolicyKind::kStatic;
  EXPECT_TRUE(fails_with(ErrorKind::kUsage, {"static", "--expert-profile"}, load));
}

TEST_F(CachingTest, ATraceHoldsEveryTokenOfEveryLayerAndChangesNothing) {
  const std::vector<float> expected = read(*Engine::load(options_));
  options_.dump_routing = folder_ / "routing.trace";
  std::unique_ptr<Engine> engine = Engine::load(options_);
  const std::vector<float> logits = read(*engine);
  EXPECT_EQ(std::memcmp(logits.data(), expected.data(), sizeof(float) * logits.size()), 0);
  engine->finish();
  const core::Trace trace = core::Trace::load(options_.dump_routing);
  EXPECT_EQ(trace.tokens(), 39);
  EXPECT_EQ(trace.size(), 39U * 3);
  EXPECT_EQ(trace.picks(), 39 * 3 * 3);

  std::filesystem::remove(options_.dump_routing);
  engine = Engine::load(options_);
  (void)read(*engine);
  engine.reset();  // without finish(): a run that failed
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"tiny.gguf"});
}

TEST_F(CachingTest, ExpertsOnDiskGiveTheSameBits) {
  const std::vector<float> expected = read(*Engine::load(options_));
  options_.expert_folder = folder_.path();
  use_cache(12);
  const std::unique_ptr<Engine> engine = Engine::load(options_);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"tiny.gguf"}) << "the file has no name";
  const std::vector<float> logits = read(*engine);
  EXPECT_EQ(std::memcmp(logits.data(), expected.data(), sizeof(float) * logits.size()), 0);
  options_.expert_folder = folder_ / "none";
  EXPECT_TRUE(fails_with(ErrorKind::kIo, {"none"}, [this] { (void)Engine::load(options_); }));
}

TEST_F(CachingTest, FilesThatCannotBeWrittenAreToldBeforeLoading) {
  const auto load = [this] { (void)Engine::load(options_); };
  options_.dump_routing = folder_ / "no" / "routing.trace";
  EXPECT_TRUE(fails_with(ErrorKind::kIo, {"routing.trace"}, load));
  options_.dump_routing.clear();
  options_.audit = folder_ / "no" / "audit.jsonl";
  EXPECT_TRUE(fails_with(ErrorKind::kIo, {"audit.jsonl"}, load));
}

TEST_F(CachingTest, AuditRequestsAddUpToExitMinusReady) {
  for (const std::uint64_t slots : {0, 12}) {
    options_.cache.size = {};
    if (slots > 0) use_cache(slots);
    options_.audit = folder_ / ("audit-" + std::to_string(slots) + ".jsonl");
    const std::unique_ptr<Engine> engine = Engine::load(options_);
    for (int i = 0; i < 3; ++i) {
      (void)read(*engine);
      engine->audit({0, i, 9, 30, 0.5, 1.5});
    }
    engine->finish();
    const std::vector<nlohmann::json> records = audit_records();
    ASSERT_EQ(records.size(), 6U);
    EXPECT_EQ(records[0]["event"], "load");
    EXPECT_EQ(records[0]["layers"].size(), 3U);
    const nlohmann::json& ready = records[1];
    const nlohmann::json& exit = records[5];
    ASSERT_EQ(exit["event"], "exit");
    for (const char* key :
         {"hits", "hits_profile", "misses", "bytes_upload", "bytes_cpu", "swaps"}) {
      std::uint64_t sum = 0;
      for (int i = 2; i < 5; ++i)
        sum += records[static_cast<std::size_t>(i)]["req_" + std::string(key)].get<std::uint64_t>();
      EXPECT_EQ(sum, exit[key].get<std::uint64_t>() - ready[key].get<std::uint64_t>()) << key;
    }
    std::uint64_t hits = 0;
    for (const nlohmann::json& layer : exit["layers"]) {
      hits += layer["hits"].get<std::uint64_t>();
      EXPECT_LE(layer["resident"].size(), layer["slots"].get<std::size_t>());
    }
    EXPECT_EQ(hits, exit["hits"].get<std::uint64_t>());
    EXPECT_EQ(exit["perf"]["n_gen"], 90);
  }
}

}  // namespace
}  // namespace strata
