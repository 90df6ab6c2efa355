// Hyper-parameters: what is read, what is assumed when a key is absent, and what is refused.
#include "strata/model/hparams.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace strata::model {
namespace {

using testing::TinyModel;

class HParamsTest : public ::testing::Test {
 protected:
  HParamsTest() : model_(testing::TinyShape{}) { model_.tensors.clear(); }

  void set(const std::string& key, TinyModel::Value value) {
    model_.metadata["qwen3moe." + key] = std::move(value);
  }
  void drop(const std::string& key) {
    ASSERT_EQ(model_.metadata.erase("qwen3moe." + key), 1u) << key;
  }
  [[nodiscard]] HParams read() const {
    const std::vector<std::byte> bytes = model_.bytes();
    return read_hparams(gguf::test::parse(bytes, "tiny.gguf"));
  }
  [[nodiscard]] ::testing::AssertionResult refused(
      std::initializer_list<std::string_view> parts) const {
    return testing::fails_with(ErrorKind::kInput, parts, [&] { (void)read(); });
  }

  TinyModel model_;
};

TEST_F(HParamsTest, ReadsEveryKey) {
  set("rope.dimension_count", std::uint32_t{8});
  set("rope.freq_base", 1e6f);
  set("attention.layer_norm_rms_epsilon", 1e-5f);
  const HParams h = read();
  ASSERT_NE(h.arch, nullptr);
  EXPECT_EQ(h.arch->name, "qwen3moe");
  EXPECT_EQ(h.arch->rope, RopeKind::kHalves);
  EXPECT_EQ(h.arch->qk_norm, QkNorm::kPerHead);
  EXPECT_TRUE(h.arch->renormalize);
  EXPECT_EQ(h.name, "tiny");
  EXPECT_EQ(h.layers, 2);
  EXPECT_EQ(h.embd, 64);
  EXPECT_EQ(h.context, 100);
  EXPECT_EQ(h.heads, 4);
  EXPECT_EQ(h.kv_heads, 2);
  EXPECT_EQ(h.head_dim, 16);
  EXPECT_EQ(h.n_rot, 8);
  EXPECT_EQ(h.rope_base, 1e6f);
  EXPECT_EQ(h.rope_scale, 1.0f);
  EXPECT_EQ(h.norm_eps, 1e-5f);
  EXPECT_EQ(h.experts, 6);
  EXPECT_EQ(h.experts_used, 2);
  EXPECT_EQ(h.expert_hidden, 32);
}

TEST_F(HParamsTest, FillsInWhatMayBeAbsent) {
  model_.metadata.erase("general.name");
  drop("attention.head_count_kv");
  drop("attention.key_length");
  drop("attention.value_length");
  drop("rope.freq_base");
  drop("expert_feed_forward_length");
  set("feed_forward_length", std::uint32_t{192});
  const HParams h = read();
  EXPECT_EQ(h.name, "tiny.gguf") << "the file's name";
  EXPECT_EQ(h.kv_heads, 4) << "one KV head a query head";
  EXPECT_EQ(h.head_dim, 16) << "embedding_length / head_count";
  EXPECT_EQ(h.n_rot, 16) << "the whole head";
  EXPECT_EQ(h.rope_base, 10000.0f);
  EXPECT_EQ(h.expert_hidden, 96) << "feed_forward_length / expert_used_count";
}

TEST_F(HParamsTest, ValueLengthMayBeTheOnlyOneGiven) {
  drop("attention.key_length");
  EXPECT_EQ(read().head_dim, 16);
}

TEST_F(HParamsTest, AcceptsAnyIntegerWidthAndWholeNumbersForFloats) {
  set("block_count", std::uint64_t{3});
  set("context_length", std::int32_t{50});
  set("rope.freq_base", std::uint32_t{500000});
  const HParams h = read();
  EXPECT_EQ(h.layers, 3);
  EXPECT_EQ(h.context, 50);
  EXPECT_EQ(h.rope_base, 500000.0f);
}

TEST_F(HParamsTest, EveryRequiredKeyIsMissed) {
  for (const char* key : {"expert_used_count", "block_count", "embedding_length", "context_length",
                          "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    const auto saved = model_.metadata;
    drop(key);
    EXPECT_TRUE(refused({std::string("'qwen3moe.") + key + "'", "missing", "tiny.gguf"}));
    model_.metadata = saved;
  }
  drop("expert_feed_forward_length");
  EXPECT_TRUE(refused({"qwen3moe.expert_feed_forward_length"}));
  model_.metadata.erase("general.architecture");
  EXPECT_TRUE(refused({"general.architecture", "missing"}));
}

TEST_F(HParamsTest, WrongTypesAreNamed) {
  const std::vector<const char*> keys = {"expert_count",
                                         "expert_used_count",
                                         "block_count",
                                         "embedding_length",
                                         "context_length",
                                         "attention.head_count",
                                         "attention.head_count_kv",
                                         "attention.key_length",
                                         "attention.value_length",
                                         "rope.dimension_count",
                                         "rope.freq_base",
                                         "attention.layer_norm_rms_epsilon",
                                         "expert_feed_forward_length"};
  for (const char* key : keys) {
    const auto saved = model_.metadata;
    set(key, std::string("12"));
    EXPECT_TRUE(refused({std::string("qwen3moe.") + key, "str"}));
    model_.metadata = saved;
  }
  for (const char* key : {"block_count", "expert_count", "attention.key_length"}) {
    const auto saved = model_.metadata;
    set(key, 2.0f);
    EXPECT_TRUE(refused({std::string("qwen3moe.") + key, "f32"}));
    model_.metadata = saved;
  }
  set("rope.scaling.type", std::uint32_t{1});
  EXPECT_TRUE(refused({"qwen3moe.rope.scaling.type", "u32"}));
  model_.metadata["general.architecture"] = std::uint32_t{7};
  EXPECT_TRUE(refused({"general.architecture", "u32"}));
}

struct Case {
  const char* key;
  TinyModel::Value value;
};

TEST_F(HParamsTest, SenselessValuesAreNamed) {
  constexpr std::uint32_t kZero = 0;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<Case> cases = {
      {"expert_count", std::uint32_t{70000}},
      {"expert_count", std::int32_t{-1}},
      {"expert_used_count", kZero},
      {"expert_used_count", std::uint32_t{7}},  // of 6
      {"block_count", kZero},
      {"block_count", std::uint32_t{5000}},
      {"block_count", std::uint64_t{1} << 40},
      {"block_count", ~std::uint64_t{0}},
      {"embedding_length", kZero},
      {"embedding_length", std::uint32_t{48}},  // no multiple of 32
      {"embedding_length", std::uint64_t{1} << 33},
      {"context_length", kZero},
      {"context_length", std::int32_t{-5}},
      {"context_length", ~std::uint32_t{0}},
      {"attention.head_count", kZero},
      {"attention.head_count_kv", kZero},
      {"attention.head_count_kv", std::uint32_t{3}},  // 4 query heads
      {"attention.head_count_kv", std::uint32_t{8}},
      {"attention.key_length", kZero},
      {"attention.key_length", std::uint32_t{8}},
      {"attention.key_length", std::uint32_t{24}},  // no multiple of 16
      {"attention.key_length", std::uint32_t{1024}},
      {"attention.value_length", std::uint32_t{32}},  // another than key_length
      {"rope.dimension_count", std::uint32_t{7}},
      {"rope.dimension_count", kZero},
      {"rope.dimension_count", std::uint32_t{32}},  // more than the head has
      {"rope.freq_base", 0.0f},
      {"rope.freq_base", -1.0f},
      {"rope.freq_base", kInfinity},
      {"rope.freq_base", 1e300},  // no float
      {"attention.layer_norm_rms_epsilon", 0.0f},
      {"attention.layer_norm_rms_epsilon", -1e-6f},
      {"attention.layer_norm_rms_epsilon", 1e-60},  // zero as a float
      {"attention.layer_norm_rms_epsilon", std::numeric_limits<float>::quiet_NaN()},
      {"expert_feed_forward_length", kZero},
      {"expert_feed_forward_length", std::uint32_t{40}},  // no multiple of 32
  };
  for (const Case& c : cases) {
    const auto saved = model_.metadata;
    set(c.key, c.value);
    EXPECT_TRUE(refused({std::string("'qwen3moe.") + c.key + "'", "tiny.gguf"}));
    model_.metadata = saved;
  }
}

TEST_F(HParamsTest, ADenseModelIsToldWhatItIs) {
  set("expert_count", std::uint32_t{0});
  EXPECT_TRUE(refused({"qwen3moe.expert_count", "dense model", "mixture-of-experts"}));
  drop("expert_count");
  EXPECT_TRUE(refused({"qwen3moe.expert_count", "dense model", "mixture-of-experts"}));
}

TEST_F(HParamsTest, AnUnknownArchitectureListsTheKnown) {
  model_.metadata["general.architecture"] = "llama";
  EXPECT_TRUE(refused({"'llama'", "no experts", "mixture-of-experts", "qwen3moe"}));
  model_.metadata["general.architecture"] = "newmoe";
  model_.metadata["newmoe.expert_count"] = std::uint32_t{8};
  EXPECT_TRUE(refused({"'newmoe'", "supported: "}));
  for (const Architecture& a : architectures()) EXPECT_TRUE(refused({a.name}));
  EXPECT_FALSE(refused({"no experts"})) << "it has some";
}

TEST_F(HParamsTest, LinearRopeScalingIsReadAndOthersAreRefused) {
  set("rope.scaling.type", std::string("none"));
  EXPECT_EQ(read().rope_scale, 1.0f);
  set("rope.scaling.type", std::string("linear"));
  EXPECT_EQ(read().rope_scale, 1.0f) << "no factor: as it was";
  set("rope.scaling.factor", 4.0f);
  EXPECT_EQ(read().rope_scale, 4.0f);
  set("rope.scaling.factor", 0.0f);
  EXPECT_TRUE(refused({"qwen3moe.rope.scaling.factor"}));
  set("rope.scaling.factor", 4.0f);
  for (const char* type : {"yarn", "longrope", "YARN", ""}) {
    set("rope.scaling.type", std::string(type));
    EXPECT_TRUE(refused({"qwen3moe.rope.scaling.type", type, "none", "linear"}));
  }
}

TEST(ArchitectureTest, EveryRowIsFoundByItsName) {
  ASSERT_FALSE(architectures().empty());
  for (const Architecture& a : architectures()) EXPECT_EQ(find_architecture(a.name), &a);
  EXPECT_EQ(find_architecture("qwen3mo"), nullptr);
  EXPECT_EQ(find_architecture("qwen3moe2"), nullptr);
  EXPECT_EQ(find_architecture(""), nullptr);
}

}  // namespace
}  // namespace strata::model
