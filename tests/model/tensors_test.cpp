// Binding of weights: every tensor found by name, and every fault of one named.
#include "strata/model/tensors.hpp"

#include "strata/quant/packed_matrix.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace strata::model {
namespace {

using gguf::Type;
using testing::TinyModel;
using testing::TinyShape;
using testing::TinyTensor;

// An opened model and what was bound in it.
struct Bound {
  std::vector<std::byte> bytes;
  gguf::File file;
  HParams h;
  ModelTensors t;
};

Bound bind(const TinyModel& model) {
  std::vector<std::byte> bytes = model.bytes();
  gguf::File file = gguf::test::parse(bytes, "tiny.gguf");
  HParams h = read_hparams(file);
  ModelTensors t = bind_tensors(file, h);
  return {std::move(bytes), std::move(file), h, std::move(t)};
}

::testing::AssertionResult refused(const TinyModel& model,
                                   std::initializer_list<std::string_view> parts) {
  return testing::fails_with(ErrorKind::kInput, parts, [&] { (void)bind(model); });
}

bool is_vector(const TinyTensor& t) { return t.ne.size() == 1; }

// Zeros of another type or shape.
TinyTensor zeros(Type type, std::vector<std::int64_t> ne) {
  const gguf::TypeTraits& traits = gguf::traits(type);
  std::int64_t elements = 1;
  for (const std::int64_t n : ne) elements *= n;
  std::vector<std::byte> data(static_cast<std::size_t>(elements) / traits.block_elems *
                              traits.block_bytes);
  return {type, std::move(ne), std::move(data)};
}

TEST(TensorsTest, FindsEveryTensorByItsName) {
  TinyShape shape;
  shape.tied = false;
  const Bound b = bind(TinyModel(shape));
  EXPECT_EQ(b.h.vocab, 277);
  EXPECT_EQ(b.t.token_embd->name, "token_embd.weight");
  EXPECT_EQ(b.t.output_norm->name, "output_norm.weight");
  EXPECT_EQ(b.t.output->name, "output.weight");
  ASSERT_EQ(b.t.layers.size(), 2u);
  for (int layer = 0; layer < 2; ++layer) {
    const LayerTensors& t = b.t.layers[static_cast<std::size_t>(layer)];
    const std::string blk = "blk." + std::to_string(layer) + ".";
    EXPECT_EQ(t.attn_norm->name, blk + "attn_norm.weight");
    EXPECT_EQ(t.attn_q->name, blk + "attn_q.weight");
    EXPECT_EQ(t.attn_k->name, blk + "attn_k.weight");
    EXPECT_EQ(t.attn_v->name, blk + "attn_v.weight");
    EXPECT_EQ(t.attn_output->name, blk + "attn_output.weight");
    EXPECT_EQ(t.attn_q_norm->name, blk + "attn_q_norm.weight");
    EXPECT_EQ(t.attn_k_norm->name, blk + "attn_k_norm.weight");
    EXPECT_EQ(t.ffn_norm->name, blk + "ffn_norm.weight");
    EXPECT_EQ(t.router->name, blk + "ffn_gate_inp.weight");
    EXPECT_EQ(t.gate->name, blk + "ffn_gate_exps.weight");
    EXPECT_EQ(t.up->name, blk + "ffn_up_exps.weight");
    EXPECT_EQ(t.down->name, blk + "ffn_down_exps.weight");
    EXPECT_FALSE(t.fused());
  }
}

TEST(TensorsTest, WithoutAHeadTheEmbeddingIsIt) {
  const Bound b = bind(TinyModel(TinyShape{}));
  EXPECT_EQ(b.t.output, b.t.token_embd);
}

TEST(TensorsTest, AcceptsGateAndUpInOneTensor) {
  TinyShape shape;
  shape.fused = true;
  const Bound b = bind(TinyModel(shape));
  for (const LayerTensors& t : b.t.layers) {
    EXPECT_TRUE(t.fused());
    EXPECT_EQ(t.gate->ne[1], 2 * b.h.expert_hidden);
  }
}

TEST(TensorsTest, EveryMissingTensorIsNamed) {
  const TinyModel whole{TinyShape{}};
  for (const auto& [name, tensor] : whole.tensors) {
    TinyModel model = whole;
    model.tensors.erase(name);
    EXPECT_TRUE(refused(model, {"'" + name + "'", "missing", "tiny.gguf"}));
  }
}

TEST(TensorsTest, EveryWrongShapeIsNamedWithTheRightOne) {
  TinyShape shape;
  shape.tied = false;
  const TinyModel whole(shape);
  for (const auto& [name, tensor] : whole.tensors) {
    for (std::size_t dim = 0; dim < tensor.ne.size(); ++dim) {
      if (name == "token_embd.weight" && dim == 1) continue;  // it says what the vocabulary is
      TinyModel model = whole;
      std::vector<std::int64_t> ne = tensor.ne;
      ne[dim] += dim == 0 ? 32 : 1;
      model.tensors[name] = zeros(tensor.type, ne);
      const std::string expected = "expected [" + std::to_string(tensor.ne[0]) + ", " +
                                   std::to_string(is_vector(tensor) ? 1 : tensor.ne[1]);
      EXPECT_TRUE(refused(model, {"'" + name + "'", expected}));
    }
    TinyModel model = whole;  // one dimension too many
    std::vector<std::int64_t> ne = tensor.ne;
    ne.push_back(2);
    model.tensors[name] = zeros(tensor.type, ne);
    EXPECT_TRUE(refused(model, {"'" + name + "'", "expected ["}));
  }
}

TEST(TensorsTest, TheHeadMustHaveTheVocabularyOfTheEmbedding) {
  TinyShape shape;
  shape.tied = false;
  TinyModel model(shape);
  model.tensors["token_embd.weight"] = zeros(Type::kQ8_0, {64, 280});
  EXPECT_TRUE(refused(model, {"'output.weight'", "280"}));
}

TEST(TensorsTest, TheFusedTensorHasTwiceTheRows) {
  TinyShape shape;
  shape.fused = true;
  TinyModel model(shape);
  model.tensors["blk.1.ffn_gate_up_exps.weight"] = zeros(Type::kQ8_0, {64, 32, 6});
  EXPECT_TRUE(refused(model, {"'blk.1.ffn_gate_up_exps.weight'", "expected [64, 64, 6, 1]"}));
}

TEST(TensorsTest, TypesWithoutKernelsAreNamedWithThoseThatHaveSome) {
  TinyShape shape;
  shape.tied = false;
  const TinyModel whole(shape);
  for (const auto& [name, tensor] : whole.tensors) {
    if (is_vector(tensor)) continue;
    for (const Type type : {Type::kIQ4_NL, Type::kI8, Type::kF64}) {
      if (quant::is_supported(type) || tensor.ne[0] % gguf::traits(type).block_elems != 0) continue;
      TinyModel model = whole;
      model.tensors[name] = zeros(type, tensor.ne);
      const std::string_view type_name = gguf::traits(type).name;
      EXPECT_TRUE(refused(model, {"'" + name + "'", type_name, "supported: ", "Q4_K", "BF16"}));
    }
  }
}

TEST(TensorsTest, NormsAreF32) {
  const TinyModel whole{TinyShape{}};
  for (const auto& [name, tensor] : whole.tensors) {
    if (!is_vector(tensor)) continue;
    TinyModel model = whole;
    model.tensors[name] = zeros(Type::kF16, tensor.ne);
    EXPECT_TRUE(refused(model, {"'" + name + "'", "F16", "expected F32"}));
  }
}

TEST(TensorsTest, EverySupportedTypeIsAcceptedForEveryMatrix) {
  TinyShape shape;
  shape.embd = 256;
  shape.heads = 8;
  shape.head_dim = 32;
  shape.hidden = 256;
  shape.experts = 2;
  shape.layers = 1;
  shape.vocab = 20;
  const std::span<const Type> types = quant::supported_types();
  for (std::size_t first = 0; first < types.size(); ++first) {
    shape.type = [&](int index) {
      return types[(first + static_cast<std::size_t>(index)) % types.size()];
    };
    TinyModel model(shape);
    EXPECT_NO_THROW((void)bind(model));
  }
}

TEST(TensorsTest, UnknownTensorsDisturbNobody) {
  TinyModel model{TinyShape{}};
  model.tensors["blk.0.something_else.weight"] = zeros(Type::kF32, {3});
  EXPECT_NO_THROW((void)bind(model));
}

}  // namespace
}  // namespace strata::model
