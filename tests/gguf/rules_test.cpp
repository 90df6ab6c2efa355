#include "src/gguf/rules.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace strata::gguf {
namespace {

TEST(Types, TableHoldsEveryTypeUnderItsId) {
  struct Row {
    std::uint32_t id;
    std::string_view name;
    std::uint32_t elems;
    std::uint32_t bytes;
  };
  // Bits a weight times the block gives the bytes: an independent statement of each size.
  constexpr Row kRows[] = {
      {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
      {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
      {8, "Q8_0", 32, 34},      {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},
      {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},
      {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98},
      {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
      {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},
      {25, "I16", 1, 2},        {26, "I32", 1, 4},        {27, "I64", 1, 8},
      {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},
      {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
      {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
  };
  for (const Row& row : kRows) {
    const TypeTraits* found = find_type(row.id);
    ASSERT_NE(found, nullptr) << row.id;
    EXPECT_EQ(static_cast<std::uint32_t>(found->type), row.id);
    EXPECT_EQ(found->name, row.name);
    EXPECT_EQ(found->block_elems, row.elems) << row.name;
    EXPECT_EQ(found->block_bytes, row.bytes) << row.name;
    EXPECT_EQ(&traits(found->type), found);
  }
  std::size_t known = 0;
  for (std::uint32_t id = 0; id < 1000; ++id) known += find_type(id) != nullptr;
  EXPECT_EQ(known, std::size(kRows));
  EXPECT_EQ(find_type(std::numeric_limits<std::uint32_t>::max()), nullptr);
}

TEST(TensorBytes, MultipliesBlocksAndRefusesWhatDoesNotFit) {
  using Shape = std::vector<std::int64_t>;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(tensor_bytes(Type::kF32, Shape{3}), 12u);
  EXPECT_EQ(tensor_bytes(Type::kQ4_K, Shape{512, 3, 5}), 2u * 144 * 15);
  EXPECT_EQ(tensor_bytes(Type::kF64, Shape{2, 3, 5, 7}), 8u * 210);
  EXPECT_EQ(row_bytes(Type::kQ8_0, 96), 102u);
  EXPECT_EQ(tensor_bytes(Type::kQ4_K, Shape{128}), std::nullopt);
  EXPECT_EQ(tensor_bytes(Type::kF32, Shape{}), std::nullopt);
  EXPECT_EQ(tensor_bytes(Type::kF32, Shape{0}), std::nullopt);
  EXPECT_EQ(tensor_bytes(Type::kF32, Shape{4, -1}), std::nullopt);
  EXPECT_EQ(row_bytes(Type::kI8, kMost), std::uint64_t{kMost});
  EXPECT_EQ(row_bytes(Type::kI32, kMost), std::nullopt);
  EXPECT_EQ(tensor_bytes(Type::kI8, Shape{kMost, 2}), std::uint64_t{kMost} * 2);
  EXPECT_EQ(tensor_bytes(Type::kI8, Shape{kMost, 3}), std::nullopt);
  EXPECT_EQ(tensor_bytes(Type::kI8, Shape{1 << 30, 1 << 30, 1 << 30, 1 << 30}), std::nullopt);
}

TEST(Utf8, AcceptsWellFormedTextOnly) {
  for (const std::string_view good :
       {"", "plain", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80",
        "\xF4\x8F\xBF\xBF", "a\xE2\x82\xAC z"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const std::string_view bad :
       {"\x80", "\xC2", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xC3(",
        "\xE2\x82\x28", "\xF0\x90\x80("}) {
    EXPECT_FALSE(is_utf8(bad)) << testing::PrintToString(bad);
  }
}

TEST(InQuotes, MakesAnyBytesFitForAMessage) {
  EXPECT_EQ(in_quotes("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("a\n\x1B[31m\x7F"), "'a\\x0a\\x1b[31m\\x7f'");
  EXPECT_EQ(in_quotes("\xFF\xE2\x82\xAC"), "'\\xff\xE2\x82\xAC'");
  EXPECT_EQ(in_quotes("\xC2\x9B"), "'\\xc2\\x9b'") << "C1 controls drive terminals too";
  EXPECT_EQ(in_quotes(std::string(80, 'x')), "'" + std::string(80, 'x') + "'");
  EXPECT_EQ(in_quotes(std::string(5000, 'x')), "'" + std::string(80, 'x') + "...' (5000 bytes)");
}

TEST(ShardName, IsParsedAndMade) {
  const auto name = parse_shard_name("a-b-00002-of-00013.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->prefix, "a-b");
  EXPECT_EQ(name->number, 2);
  EXPECT_EQ(name->count, 13);
  EXPECT_EQ(shard_file_name("a-b", 2, 13), "a-b-00002-of-00013.gguf");
  for (const std::string_view bad :
       {"", "a.gguf", "-00002-of-00013.gguf", "a-00002-of-0013.gguf", "a-0000x-of-00013.gguf",
        "a_00002-of-00013.gguf", "a-00002-to-00013.gguf", "a-00002-of-00013.GGUF",
        "a-00002-of-00013.gguf.part"}) {
    EXPECT_FALSE(parse_shard_name(bad)) << bad;
  }
}

TEST(Alignment, IsAPowerOfTwoOfAtLeastEight) {
  for (const std::uint64_t good : {8ull, 32ull, 4096ull, 0x80000000ull})
    EXPECT_TRUE(valid_alignment(good)) << good;
  for (const std::uint64_t bad : {0ull, 1ull, 4ull, 24ull, 33ull, 0x100000000ull, ~0ull}) {
    EXPECT_FALSE(valid_alignment(bad)) << bad;
  }
}

}  // namespace
}  // namespace strata::gguf
