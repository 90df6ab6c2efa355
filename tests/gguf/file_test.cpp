#include "strata/gguf/file.hpp"

#include "tests/gguf/raw_file.hpp"
#include "tests/gguf/temp_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

namespace strata::gguf {
namespace {

using test::parse;
using test::RawFile;
using test::sample;
using testing::ElementsAre;
using testing::HasSubstr;

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

TEST(File, ReadsEveryValueTypeInBothVersions) {
  for (const std::uint32_t version : {2u, 3u}) {
    const RawFile raw = sample(version);
    const File file = parse(raw.bytes());
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.metadata().size(), 16u);
    EXPECT_EQ(file.total_bytes(), raw.bytes().size());
    EXPECT_EQ(file.shard_count(), 1u);
    EXPECT_EQ(file.get_int("a.u8"), 200);
    EXPECT_EQ(file.get_int("a.i8"), -100);
    EXPECT_EQ(file.get_int("a.u16"), 60000);
    EXPECT_EQ(file.get_int("a.i16"), -30000);
    EXPECT_EQ(file.get_int("a.u32"), 4000000000);
    EXPECT_EQ(file.get_int("a.i32"), -2000000000);
    EXPECT_EQ(file.get_int("a.i64"), -5000000000);
    EXPECT_EQ(file.get_float("a.f32"), 1.5);
    EXPECT_EQ(file.get_float("a.f64"), 0.1);
    EXPECT_EQ(file.get_bool("a.bool"), true);
    EXPECT_EQ(file.get_string("a.str"), "gr\xC3\xBC\xC3\x9F dich");
    EXPECT_THAT(*file.get_ints("b.i32"), ElementsAre(7, -8));
    EXPECT_THAT(*file.get_strings("b.str"), ElementsAre("", "two"));
    EXPECT_THAT(*file.get_ints("b.bool"), ElementsAre(1, 0, 1));
    EXPECT_THAT(*file.get_floats("b.f32"), ElementsAre(0.25));
  }
}

TEST(File, KeepsTheStoredTypesAndTheOrder) {
  const RawFile raw = sample();
  const File file = parse(raw.bytes());
  std::string types;
  for (const KeyValue& entry : file.metadata()) types += std::string(entry.type_name) + " ";
  EXPECT_EQ(types,
            "u8 i8 u16 i16 u32 i32 f32 bool str u64 i64 f64 arr[i32] arr[str] arr[bool] arr[f32] ");
  EXPECT_EQ(std::get<std::uint64_t>(*file.find("a.u64")), ~std::uint64_t{0});
  EXPECT_EQ(std::get<std::int64_t>(*file.find("a.i8")), -100);
  EXPECT_EQ(file.find("a.none"), nullptr);
}

TEST(File, PointsTensorsAtTheirBytes) {
  const RawFile raw = sample();
  const File file = parse(raw.bytes());
  ASSERT_EQ(file.tensors().size(), 2u);
  const TensorInfo* norm = file.find_tensor("norm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->type, Type::kF32);
  EXPECT_EQ(norm->n_dims, 2);
  EXPECT_THAT(norm->ne, ElementsAre(2, 3, 1, 1));
  EXPECT_EQ(norm->rows(), 3);
  EXPECT_EQ(norm->row_bytes, 8u);
  EXPECT_EQ(norm->data.data(), raw.bytes().data() + raw.at("data"));
  EXPECT_EQ(norm->data.size(), 24u);
  const TensorInfo* w = file.find_tensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->row_bytes, 36u);
  EXPECT_EQ(w->data.data(), raw.bytes().data() + raw.at("data") + 32);
  EXPECT_EQ(w->data.size(), 72u);
  EXPECT_EQ(w->shard, 0);
  EXPECT_EQ(file.find_tensor("W"), nullptr);
}

TEST(File, LooksUpAfterAMove) {
  const RawFile raw = sample();
  File first = parse(raw.bytes());
  const File second = std::move(first);
  EXPECT_EQ(second.get_int("a.u8"), 200);
  EXPECT_NE(second.find_tensor("w"), nullptr);
}

TEST(File, TypedReadsOfAMissingKeyAreEmpty) {
  const RawFile raw = sample();
  const File file = parse(raw.bytes());
  EXPECT_EQ(file.get_int("x"), std::nullopt);
  EXPECT_EQ(file.get_float("x"), std::nullopt);
  EXPECT_EQ(file.get_bool("x"), std::nullopt);
  EXPECT_EQ(file.get_string("x"), std::nullopt);
  EXPECT_EQ(file.get_strings("x"), nullptr);
  EXPECT_EQ(file.get_ints("x"), nullptr);
  EXPECT_EQ(file.get_floats("x"), nullptr);
}

TEST(File, TypedReadsOfAnotherTypeNameKeyAndTypes) {
  const RawFile raw = sample();
  const File file = parse(raw.bytes());
  const auto says = [](const std::string& key, const std::string& is, const std::string& expected) {
    return "test.gguf: metadata key '" + key + "' is " + is + ", expected " + expected;
  };
  EXPECT_EQ(message_of([&] { (void)file.get_int("a.str"); }), says("a.str", "str", "an integer"));
  EXPECT_EQ(message_of([&] { (void)file.get_int("a.f32"); }), says("a.f32", "f32", "an integer"));
  EXPECT_EQ(message_of([&] { (void)file.get_int("a.bool"); }),
            says("a.bool", "bool", "an integer"));
  EXPECT_EQ(message_of([&] { (void)file.get_int("a.u64"); }),
            says("a.u64", "18446744073709551615", "less than 2^63"));
  EXPECT_EQ(message_of([&] { (void)file.get_float("b.f32"); }),
            says("b.f32", "arr[f32]", "a number"));
  EXPECT_EQ(message_of([&] { (void)file.get_bool("a.u8"); }), says("a.u8", "u8", "bool"));
  EXPECT_EQ(message_of([&] { (void)file.get_string("a.i64"); }), says("a.i64", "i64", "str"));
  EXPECT_EQ(message_of([&] { (void)file.get_strings("a.str"); }),
            says("a.str", "str", "an array of str"));
  EXPECT_EQ(message_of([&] { (void)file.get_ints("b.str"); }),
            says("b.str", "arr[str]", "an array of integers"));
  EXPECT_EQ(message_of([&] { (void)file.get_floats("b.i32"); }),
            says("b.i32", "arr[i32]", "an array of floats"));
}

TEST(File, FloatsAreReadFromIntegersToo) {
  const RawFile raw = sample();
  const File file = parse(raw.bytes());
  EXPECT_EQ(file.get_float("a.i8"), -100.0);
  EXPECT_EQ(file.get_float("a.u32"), 4000000000.0);
}

TEST(File, HonoursTheAlignment) {
  RawFile raw;
  raw.begin(3, 2, 1).key("general.alignment", 4).put(std::uint32_t{128});
  raw.tensor("a", {1}, 24, 0).tensor("b", {1}, 24, 128).pad(128).mark("data").zeros(129);
  const File file = parse(raw.bytes());
  EXPECT_EQ(file.find_tensor("a")->data.data(), raw.bytes().data() + raw.at("data"));
  EXPECT_EQ(file.find_tensor("b")->data.data(), raw.bytes().data() + raw.at("data") + 128);
}

TEST(File, AcceptsTensorsInAnyOrderWithGapsAndBytesBehind) {
  RawFile raw;
  raw.begin(3, 2, 0).tensor("a", {8}, 0, 96).tensor("b", {8}, 0, 0).pad(32).zeros(96 + 32 + 5);
  const File file = parse(raw.bytes());
  EXPECT_EQ(file.find_tensor("a")->data.data() - file.find_tensor("b")->data.data(), 96);
}

TEST(File, AcceptsMetadataWithoutTensors) {
  RawFile raw;
  raw.begin(3, 0, 1).key("k", 7).put(std::uint8_t{0});
  const File file = parse(raw.bytes());
  EXPECT_EQ(file.get_bool("k"), false);
  EXPECT_TRUE(file.tensors().empty());
}

TEST(File, AcceptsEmptyArraysAndStrings) {
  RawFile raw;
  raw.begin(3, 0, 3);
  raw.key("s", 9).put(std::uint32_t{8}).put(std::uint64_t{0});
  raw.key("i", 9).put(std::uint32_t{10}).put(std::uint64_t{0});
  raw.key("t", 8).text("");
  const File file = parse(raw.bytes());
  EXPECT_TRUE(file.get_strings("s")->empty());
  EXPECT_TRUE(file.get_ints("i")->empty());
  EXPECT_EQ(file.get_string("t"), "");
}

// A string may hold any bytes: a vocabulary in the raw is not always text.
TEST(File, KeepsStringsThatAreNotUtf8) {
  RawFile raw;
  raw.begin(3, 0, 1).key("t", 8).text(std::string_view("\xFF\0\x80", 3));
  EXPECT_EQ(parse(raw.bytes()).get_string("t"), std::string_view("\xFF\0\x80", 3));
}

class DemoModel : public testing::Test {
 protected:
  const std::filesystem::path path_ =
      std::filesystem::path(STRATA_SOURCE_DIR) / "data/strata-demo.gguf";
};

TEST_F(DemoModel, Opens) {
  const File file = File::open(path_);
  EXPECT_EQ(file.path(), path_);
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.total_bytes(), std::filesystem::file_size(path_));
  EXPECT_EQ(file.get_string("general.architecture"), "qwen3moe");
  EXPECT_EQ(file.get_int("qwen3moe.block_count"), 12);
  EXPECT_EQ(file.get_float("qwen3moe.rope.freq_base"), 10000.0);
  EXPECT_EQ(file.get_bool("tokenizer.ggml.add_bos_token"), false);
  EXPECT_EQ(file.get_strings("tokenizer.ggml.tokens")->size(), 8192u);
  EXPECT_EQ(file.get_ints("tokenizer.ggml.token_type")->size(), 8192u);
  EXPECT_EQ(file.tensors().size(), 146u);
  const TensorInfo* down = file.find_tensor("blk.11.ffn_down_exps.weight");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->type, Type::kQ4_0);
  EXPECT_THAT(down->ne, ElementsAre(64, 256, 64, 1));
}

TEST_F(DemoModel, ReleasedBytesReadTheSameAgain) {
  const File file = File::open(path_);
  const TensorInfo& tensor = *file.find_tensor("token_embd.weight");
  const std::vector<std::byte> before(tensor.data.begin(), tensor.data.end());
  file.release(tensor, 0, tensor.data.size());
  file.release(tensor, 5000, 1 << 20);
  file.release(tensor, tensor.data.size(), 1);
  file.release(tensor, 0, ~std::size_t{0});
  EXPECT_TRUE(std::equal(before.begin(), before.end(), tensor.data.begin()));
}

// Five sparse gigabytes: offsets and sizes beyond 32 bits, as the largest tables have them.
TEST(Open, ReadsBeyondFourGigabytes) {
  constexpr std::int64_t kRows = 5;
  constexpr std::uint64_t kTableBytes = std::uint64_t{kRows} << 30;
  RawFile raw;
  raw.begin(3, 2, 0).tensor("table", {1 << 30, kRows}, 24, 0);
  raw.tensor("after", {4}, 24, kTableBytes).pad(32).mark("data");
  const test::TempFolder folder;
  const std::filesystem::path path = folder / "large.gguf";
  {
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(raw.bytes().data()),
              static_cast<std::streamsize>(raw.bytes().size()));
    out.seekp(static_cast<std::streamoff>(raw.at("data") + kTableBytes));
    out << "last";
    if (!out.flush()) GTEST_SKIP() << "no sparse file of 5 GiB here";
  }
  const File file = File::open(path);
  EXPECT_EQ(file.total_bytes(), raw.at("data") + kTableBytes + 4);
  EXPECT_EQ(file.find_tensor("table")->data.size(), kTableBytes);
  EXPECT_EQ(file.find_tensor("table")->data.back(), std::byte{0});
  EXPECT_EQ(file.find_tensor("after")->data[0], std::byte{'l'});
  EXPECT_EQ(file.find_tensor("after")->data[3], std::byte{'t'});
  std::filesystem::resize_file(path, raw.at("data") + kTableBytes + 3);
  EXPECT_THAT(message_of([&] { (void)File::open(path); }),
              HasSubstr("tensor 1 'after': the data takes 4 bytes from offset 5368709120"));
}

TEST(Open, RefusesWhatIsNoFile) {
  const test::TempFolder folder;
  EXPECT_THAT(message_of([&] { (void)File::open(folder.path()); }), HasSubstr("is a directory"));
  const std::filesystem::path empty = folder / "empty.gguf";
  std::ofstream(empty).close();
  EXPECT_THAT(message_of([&] { (void)File::open(empty); }), HasSubstr("the file is empty"));
  try {
    (void)File::open(folder / "none.gguf");
    ADD_FAILURE() << "opened a file that does not exist";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), HasSubstr("none.gguf: cannot open: No such file"));
  }
}

}  // namespace
}  // namespace strata::gguf
