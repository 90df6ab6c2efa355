// The expert store and pack_matrix: what is packed is what the file says, wherever it stands there.
#include "strata/core/expert_store.hpp"

#include "strata/model/tensors.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace strata::core {
namespace {

using gguf::Type;
using testing::TinyModel;
using testing::TinyShape;

// A model in memory and its experts, packed by `threads` threads.
struct Loaded {
  explicit Loaded(const TinyModel& model, int threads = 2)
      : bytes(model.bytes()),
        file(gguf::test::parse(bytes)),
        h(model::read_hparams(file)),
        tensors(model::bind_tensors(file, h)),
        pool(ThreadPoolOptions{.threads = threads, .cpus = {}}),
        store(ExpertStore::load(file, tensors, h, pool, nullptr)) {}

  std::vector<std::byte> bytes;
  gguf::File file;
  model::HParams h;
  model::ModelTensors tensors;
  ThreadPool pool;
  ExpertStore store;
};

TinyShape k_quant_shape() {
  TinyShape shape;
  shape.embd = 256;
  shape.heads = 8;
  shape.head_dim = 32;
  shape.hidden = 256;
  shape.experts = 3;
  shape.vocab = 20;
  return shape;
}

// Rows [first, first + matrix.rows) of the tensor, value by value.
void expect_rows_of(const TinyModel& model, const std::string& name, std::int64_t first,
                    const quant::PackedMatrix& matrix) {
  const testing::TinyTensor& tensor = model.tensors.at(name);
  ASSERT_EQ(matrix.type, tensor.type) << name;
  ASSERT_EQ(matrix.cols, tensor.ne[0]) << name;
  const std::vector<float> values = testing::dequantize(tensor.type, tensor.data, matrix.cols);
  std::vector<float> row(static_cast<std::size_t>(matrix.cols));
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    quant::dequantize_packed_row(matrix, r, row.data());
    ASSERT_EQ(0, std::memcmp(row.data(), values.data() + (first + r) * matrix.cols,
                             sizeof(float) * row.size()))
        << name << " row " << first + r;
  }
}

void expect_experts_of(const TinyModel& model, const Loaded& loaded) {
  const std::int64_t hidden = loaded.h.expert_hidden;
  for (int layer = 0; layer < loaded.h.layers; ++layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    const quant::ExpertLayout& layout = loaded.store.layout(layer);
    EXPECT_EQ(layout.embd, loaded.h.embd);
    EXPECT_EQ(layout.hidden, hidden);
    for (int e = 0; e < loaded.h.experts; ++e) {
      const std::byte* blob = loaded.store.blob(layer, e);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blob) % 64, 0u);
      if (model.tensors.contains(blk + "ffn_gate_up_exps.weight")) {
        const std::string name = blk + "ffn_gate_up_exps.weight";
        expect_rows_of(model, name, 2 * hidden * e, layout.gate(blob));
        expect_rows_of(model, name, 2 * hidden * e + hidden, layout.up(blob));
      } else {
        expect_rows_of(model, blk + "ffn_gate_exps.weight", hidden * e, layout.gate(blob));
        expect_rows_of(model, blk + "ffn_up_exps.weight", hidden * e, layout.up(blob));
      }
      expect_rows_of(model, blk + "ffn_down_exps.weight", loaded.h.embd * e, layout.down(blob));
    }
  }
}

TEST(ExpertStoreTest, BlobsHoldTheRowsOfTheFile) {
  const TinyModel model{TinyShape{}};
  expect_experts_of(model, Loaded(model));
}

TEST(ExpertStoreTest, EveryTypeInEveryPlaceAndAnotherInEachLayer) {
  const std::span<const Type> types = quant::supported_types();
  for (std::size_t first = 0; first < types.size(); first += 3) {
    TinyShape shape = k_quant_shape();
    shape.type = [&](int index) {
      return types[(first + static_cast<std::size_t>(index)) % types.size()];
    };
    const TinyModel model(shape);
    const Loaded loaded(model);
    expect_experts_of(model, loaded);
    EXPECT_NE(loaded.store.layout(0).gate_type, loaded.store.layout(1).gate_type);
    EXPECT_NE(loaded.store.layout(0).gate_type, loaded.store.layout(0).up_type);
  }
}

// The same experts in one tensor, an expert's gate rows before its up rows.
TEST(ExpertStoreTest, FusedGateAndUpGiveTheBlobsOfSeparateOnes) {
  const TinyModel separate{TinyShape{}};
  TinyModel fused = separate;
  for (const std::string blk : {"blk.0.", "blk.1."}) {
    const testing::TinyTensor gate = separate.tensors.at(blk + "ffn_gate_exps.weight");
    const testing::TinyTensor up = separate.tensors.at(blk + "ffn_up_exps.weight");
    testing::TinyTensor both{gate.type, {gate.ne[0], 2 * gate.ne[1], gate.ne[2]}, {}};
    const auto slab = static_cast<std::ptrdiff_t>(gate.data.size()) / gate.ne[2];
    for (std::ptrdiff_t e = 0; e < gate.ne[2]; ++e) {
      for (const testing::TinyTensor* t : {&gate, &up}) {
        const auto begin = t->data.begin() + e * slab;
        both.data.insert(both.data.end(), begin, begin + slab);
      }
    }
    fused.tensors.erase(blk + "ffn_gate_exps.weight");
    fused.tensors.erase(blk + "ffn_up_exps.weight");
    fused.tensors[blk + "ffn_gate_up_exps.weight"] = std::move(both);
  }
  const Loaded a(separate), b(fused);
  expect_experts_of(fused, b);
  ASSERT_EQ(a.store.total_bytes(), b.store.total_bytes());
  for (int layer = 0; layer < 2; ++layer) {
    for (int e = 0; e < a.h.experts; ++e) {
      EXPECT_EQ(0, std::memcmp(a.store.blob(layer, e), b.store.blob(layer, e),
                               a.store.layout(layer).bytes()));
    }
  }
}

TEST(ExpertStoreTest, AnyNumberOfThreadsPacksTheSameBytes) {
  const TinyModel model{TinyShape{}};
  const Loaded one(model, 1);
  for (const int threads : {2, 3, 5}) {
    const Loaded many(model, threads);
    for (int layer = 0; layer < 2; ++layer) {
      for (int e = 0; e < one.h.experts; ++e) {
        ASSERT_EQ(0, std::memcmp(one.store.blob(layer, e), many.store.blob(layer, e),
                                 one.store.layout(layer).bytes()));
      }
    }
  }
}

TEST(ExpertStoreTest, TakesTheBytesOfTheFile) {
  TinyShape shape;
  shape.hidden = 64;  // every blob a whole number of 64 bytes: no gaps
  const TinyModel model(shape);
  const Loaded loaded(model);
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : model.tensors) {
    if (name.find("_exps.") != std::string::npos) bytes += tensor.data.size();
  }
  EXPECT_EQ(loaded.store.total_bytes(), bytes);
}

TEST(ExpertStoreTest, ReportsItsProgress) {
  const TinyModel model{TinyShape{}};
  Loaded loaded(model);
  std::vector<double> seen;
  const ExpertStore again = ExpertStore::load(loaded.file, loaded.tensors, loaded.h, loaded.pool,
                                              [&](std::string_view stage, double fraction) {
                                                EXPECT_EQ(stage, "experts");
                                                seen.push_back(fraction);
                                              });
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_GT(seen.front(), 0.0);
  EXPECT_EQ(seen.back(), 1.0);
}

// More rows than a task packs, and a last group that is not full.
TEST(PackMatrixTest, PacksTallMatricesInPieces) {
  TinyShape shape;
  shape.vocab = 2100;
  const TinyModel model(shape);
  for (const int threads : {1, 3}) {
    Loaded loaded(model, threads);
    const gguf::TensorInfo& tensor = *loaded.tensors.token_embd;
    Buffer packed(quant::packed_bytes(tensor.type, tensor.rows(), tensor.ne[0]));
    pack_matrix(loaded.file, tensor, loaded.pool, packed.data());
    ASSERT_EQ(packed.size(), quant::packed_bytes(tensor.type, 2100, 64));
    const quant::PackedMatrix matrix{tensor.type, 2100, 64, packed.data(),
                                     quant::packed_group_bytes(tensor.type, 64)};
    expect_rows_of(model, "token_embd.weight", 0, matrix);
    std::vector<float> row(64);
    for (std::int64_t r = 2100; r < matrix.groups() * 16; ++r) {
      quant::dequantize_packed_row(matrix, r, row.data());
      for (const float v : row) EXPECT_EQ(v, 0.0f) << "padding";
    }
  }
}

}  // namespace
}  // namespace strata::core
