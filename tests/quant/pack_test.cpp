#include "strata/quant/dequantize.hpp"
#include "strata/quant/packed_matrix.hpp"

#include "strata/base/half.hpp"
#include "tests/support/random_blocks.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace strata::quant {
namespace {

using gguf::Type;

class PackTest : public ::testing::TestWithParam<Type> {};

TEST_P(PackTest, PackedRowsHoldTheFilesValues) {
  const Type type = GetParam();
  const int cols = static_cast<int>(std::max(64u, gguf::traits(type).block_elems * 3));
  for (const int rows : {1, 15, 16, 33}) {
    const std::vector<std::byte> src =
        testing::random_rows(type, rows, cols, 7u + static_cast<unsigned>(rows));
    const std::size_t row_bytes = src.size() / rows;
    std::vector<std::byte> packed(packed_bytes(type, rows, cols), std::byte{0xee});
    PackedMatrix matrix{type, rows, cols, packed.data(), packed_group_bytes(type, cols)};
    ASSERT_EQ(matrix.bytes(), packed.size());
    for (int g = 0; g < matrix.groups(); ++g) {
      const int n = std::min(kGroupRows, rows - g * kGroupRows);
      pack_group(type, std::span(src).subspan(row_bytes * g * kGroupRows, row_bytes * n), n, cols,
                 packed.data() + matrix.group_bytes * g);
    }
    std::vector<float> expected(cols), actual(cols);
    for (int r = 0; r < rows; ++r) {
      dequantize_row(type, std::span(src).subspan(row_bytes * r, row_bytes), cols, expected.data());
      dequantize_packed_row(matrix, r, actual.data());
      ASSERT_EQ(0, std::memcmp(expected.data(), actual.data(), sizeof(float) * cols))
          << "row " << r;
    }
    for (int r = rows; r < matrix.groups() * kGroupRows; ++r) {  // padding rows are zeros
      dequantize_packed_row(matrix, r, actual.data());
      for (const float v : actual) ASSERT_EQ(v, 0.0f);
    }
  }
}

TEST_P(PackTest, PackingAddsNoBytes) {
  const gguf::TypeTraits& t = gguf::traits(GetParam());
  const std::int64_t cols = 768;
  EXPECT_EQ(packed_bytes(GetParam(), 64, cols), 64u * cols / t.block_elems * t.block_bytes);
}

INSTANTIATE_TEST_SUITE_P(Types, PackTest,
                         ::testing::ValuesIn(supported_types().begin(), supported_types().end()),
                         [](const auto& info) {
                           return std::string(gguf::traits(info.param).name);
                         });

// One value of each formula, worked by hand from the format's definition.
TEST(DequantizeTest, HandWorkedBlocks) {
  std::vector<std::byte> q4_0(18);
  const std::uint16_t half = float_to_half(0.5f);
  std::memcpy(q4_0.data(), &half, 2);
  q4_0[2] = std::byte{0xf3};  // elements 0 and 16: codes 3 and 15
  float out[256];
  dequantize_row(Type::kQ4_0, q4_0, 32, out);
  EXPECT_EQ(out[0], -2.5f);
  EXPECT_EQ(out[16], 3.5f);
  EXPECT_EQ(out[1], -4.0f);

  std::vector<std::byte> q5_1(24);
  const std::uint16_t min = float_to_half(-3.0f);
  std::memcpy(q5_1.data(), &half, 2);
  std::memcpy(q5_1.data() + 2, &min, 2);
  q5_1[6] = std::byte{0x80};  // the high bit of element 23, the low half of byte 7
  q5_1[8 + 7] = std::byte{0x21};
  dequantize_row(Type::kQ5_1, q5_1, 32, out);
  EXPECT_EQ(out[7], 1 * 0.5f - 3.0f);
  EXPECT_EQ(out[23], (2 + 16) * 0.5f - 3.0f);

  std::vector<std::byte> q4_k(144);
  std::memcpy(q4_k.data(), &half, 2);
  std::memcpy(q4_k.data() + 2, &half, 2);
  q4_k[4 + 1] = std::byte{10 | 2 << 6};  // scale of sub 1: 10; two high bits of sub 5's scale
  q4_k[4 + 5] = std::byte{20 | 1 << 6};  // min of sub 1: 20; two high bits of sub 5's min
  q4_k[4 + 9] = std::byte{5 | 6 << 4};   // low bits of sub 5: scale 5, min 6
  q4_k[16 + 0] = std::byte{0x90};        // element 32: code 9
  q4_k[16 + 64 + 31] = std::byte{0x70};  // element 191: code 7
  dequantize_row(Type::kQ4_K, q4_k, 256, out);
  EXPECT_EQ(out[32], 0.5f * 10 * 9 - 0.5f * 20);
  EXPECT_EQ(out[191], 0.5f * (5 + 32) * 7 - 0.5f * (6 + 16));
}

}  // namespace
}  // namespace strata::quant
