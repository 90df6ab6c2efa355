// Broken files: every field of one made wrong in every way the reader checks, files cut at any
// byte, bits flipped.
#include "strata/gguf/file.hpp"

#include "tests/gguf/raw_file.hpp"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

namespace strata::gguf {
namespace {

using test::parse;
using test::parse_error;
using test::RawFile;
using test::sample;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

template <class T>
std::string broken(const RawFile& file, std::size_t at, T value) {
  return parse_error(file.with(at, value)).value_or("no error");
}

std::string broken(const RawFile& file) { return parse_error(file.bytes()).value_or("no error"); }

// "test.gguf: byte 12: ..."
std::string at(std::size_t offset, const std::string& rest) {
  return fmt::format("test.gguf: byte {}: {}", offset, rest);
}

// ---- the fixed part ----

TEST(Broken, OtherFilesAreRecognised) {
  const auto says = [](std::string_view start) {
    RawFile raw;
    raw.raw(start).zeros(64);
    return broken(raw);
  };
  EXPECT_EQ(says("BLOB"), at(0, "not a GGUF file: it starts with 'BLOB', expected 'GGUF'"));
  EXPECT_EQ(says("\x7F"
                 "ELF"),
            at(0, "not a GGUF file: it starts with '\\x7fELF', expected 'GGUF'"));
  EXPECT_THAT(says("version https://git-lfs.github.com/spec/v1"), HasSubstr("git lfs pull"));
  EXPECT_THAT(says("<!DOCTYPE html>"), HasSubstr("web page"));
  EXPECT_THAT(says("PK\x03\x04"), HasSubstr("PyTorch"));
  EXPECT_THAT(says("tjgg"), HasSubstr("GGJT"));
  EXPECT_THAT(says(std::string_view("\x10\x20\0\0\0\0\0\0{\"__metadata__\"", 23)),
              HasSubstr("safetensors"));
  EXPECT_THAT(says(std::string_view("\0\0\0\0\0\0\0\0", 8)),
              HasSubstr("the download is incomplete"));
}

TEST(Broken, Versions) {
  const RawFile file = sample();
  const std::size_t where = file.at("version");
  EXPECT_EQ(where, 4u);
  EXPECT_EQ(broken(file, where, std::uint32_t{0}), at(4, "the version is 0, expected 2 or 3"));
  EXPECT_EQ(broken(file, where, std::uint32_t{1}),
            at(4, "GGUF version 1, of 2023, is not read; convert the model again"));
  EXPECT_EQ(
      broken(file, where, std::uint32_t{4}),
      at(4, "the version is 4, expected 2 or 3; the file is newer than this program or broken"));
  EXPECT_EQ(broken(file, where, std::uint32_t{0x03000000}),
            at(4, "the version reads as 0x03000000: a big-endian file, which is not read"));
}

TEST(Broken, Counts) {
  const RawFile file = sample();
  const std::size_t left = file.bytes().size() - 16;
  for (const std::uint64_t count :
       {kHuge, kHuge / 2 + 1, kHuge / 33, std::uint64_t{left / 33 + 1}}) {
    EXPECT_EQ(broken(file, file.at("tensor count"), count),
              at(8, fmt::format("the tensor count is {}, but there is room for {} at most: only {} "
                                "bytes are left in the file (is it complete?)",
                                count, left / 33, left)));
  }
  for (const std::uint64_t count :
       {kHuge, kHuge / 2 + 1, kHuge / 14, std::uint64_t{(left - 8) / 14 + 1}}) {
    EXPECT_THAT(
        broken(file, file.at("metadata count"), count),
        StartsWith(at(16, fmt::format("the metadata count is {}, but there is room for {} at most",
                                      count, (left - 8) / 14))));
  }
}

// ---- metadata ----

TEST(Broken, KeyLength) {
  const RawFile file = sample();
  const std::size_t where = file.at("a.i8");
  for (const std::uint64_t length : {kHuge, kHuge / 2, std::uint64_t{file.bytes().size()}}) {
    EXPECT_EQ(broken(file, where, length),
              at(where, fmt::format("metadata entry 1: the key has length {}, but only {} bytes "
                                    "are left in the file (is "
                                    "it complete?)",
                                    length, file.bytes().size() - where - 8)));
  }
  EXPECT_EQ(broken(file, where, std::uint64_t{0}),
            at(where, "metadata entry 1: the key has 0 bytes, expected 1 to 65535"));
}

TEST(Broken, KeyLongerThanTheFormatAllows) {
  RawFile file;
  file.begin(3, 0, 1).key(std::string(65536, 'k'), 7).put(std::uint8_t{0});
  EXPECT_EQ(broken(file), at(24, "metadata entry 0: the key has 65536 bytes, expected 1 to 65535"));
  RawFile longest;
  longest.begin(3, 0, 1).key(std::string(65535, 'k'), 7).put(std::uint8_t{0});
  EXPECT_EQ(broken(longest), "no error");
}

TEST(Broken, KeyThatIsNotUtf8) {
  const RawFile file = sample();
  const std::size_t where = file.at("a.i8");
  EXPECT_EQ(broken(file, where + 8 + 1, std::uint8_t{0xC3}),
            at(where, "metadata entry 1: the key 'a\\xc3i8' is not valid UTF-8"));
}

TEST(Broken, DuplicateKey) {
  const RawFile file = sample();
  const std::size_t where = file.at("a.i8");
  EXPECT_EQ(
      broken(file, where + 8 + 2, 'u'),
      at(where, "metadata entry 1 'a.u8': the key stands in the file twice, first at byte 24"));
}

TEST(Broken, ValueType) {
  const RawFile file = sample();
  const std::size_t where = file.at("a.u16 type");
  for (const std::uint32_t type : {13u, 255u, 0x80000000u, 0xFFFFFFFFu}) {
    EXPECT_EQ(
        broken(file, where, type),
        at(where,
           fmt::format("metadata entry 2 'a.u16': the value type is {}, expected 0 to 12", type)));
  }
}

TEST(Broken, BoolValue) {
  const RawFile file = sample();
  const std::size_t where = file.at("a.bool value");
  EXPECT_EQ(broken(file, where, std::uint8_t{2}),
            at(where, "metadata entry 7 'a.bool': the value of type bool is 2, expected 0 or 1"));
  const std::size_t element = file.at("b.bool value") + 12 + 1;
  EXPECT_EQ(
      broken(file, element, std::uint8_t{0xFF}),
      at(element, "metadata entry 14 'b.bool': the value of type bool is 255, expected 0 or 1"));
}

TEST(Broken, StringLength) {
  const RawFile file = sample();
  const std::size_t where = file.at("a.str value");
  for (const std::uint64_t length : {kHuge, kHuge - 7, std::uint64_t{1} << 40}) {
    EXPECT_THAT(
        broken(file, where, length),
        StartsWith(at(
            where,
            fmt::format("metadata entry 8 'a.str': the value has length {}, but only", length))));
  }
}

TEST(Broken, ArrayElementType) {
  const RawFile file = sample();
  const std::size_t where = file.at("b.i32 value");
  EXPECT_EQ(broken(file, where, std::uint32_t{13}),
            at(where, "metadata entry 12 'b.i32': the element type is 13, expected 0 to 12"));
  EXPECT_EQ(broken(file, where, std::uint32_t{9}),
            at(where,
               "metadata entry 12 'b.i32': an array of arrays, which no model needs, is not read"));
}

TEST(Broken, ArrayCount) {
  const RawFile file = sample();
  const std::size_t where = file.at("b.i32 value") + 4;
  const std::size_t left = file.bytes().size() - where - 8;
  for (const std::uint64_t count :
       {kHuge, kHuge / 4 + 1, std::uint64_t{1} << 62, std::uint64_t{left / 4 + 1}}) {
    EXPECT_EQ(broken(file, where, count),
              at(where, fmt::format(
                            "metadata entry 12 'b.i32': the element count is {}, but there is room "
                            "for {} at most: only {} bytes are left in the file (is it complete?)",
                            count, left / 4, left)));
  }
  const std::size_t strings = file.at("b.str value") + 4;
  EXPECT_THAT(
      broken(file, strings, kHuge),
      StartsWith(
          at(strings, fmt::format("metadata entry 13 'b.str': the element count is {}", kHuge))));
  EXPECT_THAT(
      broken(file, strings + 8, kHuge),
      StartsWith(at(strings + 8,
                    fmt::format("metadata entry 13 'b.str': an element has length {}", kHuge))));
}

TEST(Broken, Alignment) {
  const auto says = [](auto put_value) {
    RawFile file;
    file.begin(3, 1, 1);
    put_value(file);
    file.tensor("t", {1}, 0, 0).pad(32).zeros(64);
    return broken(file);
  };
  for (const std::uint32_t value : {0u, 1u, 4u, 24u, 0xFFFFFFFFu}) {
    EXPECT_EQ(says([&](RawFile& file) { file.key("general.alignment", 4).put(value); }),
              at(24, fmt::format("general.alignment is {}, expected a power of two of at least 8",
                                 value)));
  }
  EXPECT_THAT(says([](RawFile& file) { file.key("general.alignment", 11).put(std::int64_t{-32}); }),
              HasSubstr("general.alignment is 18446744073709551584, expected a power of two"));
  EXPECT_EQ(says([](RawFile& file) { file.key("general.alignment", 8).text("32"); }),
            at(24, "general.alignment is str, expected an integer"));
  EXPECT_EQ(says([](RawFile& file) { file.key("general.alignment", 5).put(std::int32_t{32}); }),
            "no error");
}

// Lengths inside the file, but a header no model has: what a hostile file could make us allocate is
// bounded.
TEST(Broken, HeaderTooLarge) {
  constexpr std::uint64_t kElements = std::uint64_t{257} << 20;
  RawFile file;
  file.begin(3, 0, 1)
      .key("big", 9)
      .put(std::uint32_t{0})
      .mark("count")
      .put(kElements)
      .zeros(kElements);
  EXPECT_EQ(broken(file),
            at(file.at("count"),
               fmt::format(
                   "metadata entry 0 'big': the element count is {}, but there is room for {} at "
                   "most: a header may have at most 268435456 bytes and {} of them are left",
                   kElements, 268435456 - file.at("count") - 8, 268435456 - file.at("count") - 8)));
}

// ---- tensors ----

TEST(Broken, TensorName) {
  const RawFile file = sample();
  const std::size_t where = file.at("w");
  EXPECT_EQ(broken(file, where, std::uint64_t{0}),
            at(where, "tensor 1: the name has 0 bytes, expected 1 to 64"));
  EXPECT_EQ(broken(file, where, std::uint64_t{65}),
            at(where, "tensor 1: the name has 65 bytes, expected 1 to 64"));
  EXPECT_THAT(broken(file, where, kHuge),
              StartsWith(at(where, "tensor 1: the name has length 18446744073709551615, but")));
  EXPECT_EQ(broken(file, where + 8, std::uint8_t{0xFF}),
            at(where, "tensor 1: the name '\\xff' is not valid UTF-8"));
}

TEST(Broken, DuplicateTensor) {
  RawFile file;
  file.begin(3, 2, 0)
      .tensor("t", {8}, 0, 0)
      .mark("second")
      .tensor("t", {8}, 0, 32)
      .pad(32)
      .zeros(64);
  EXPECT_EQ(broken(file), at(file.at("second"),
                             "tensor 1 't': the name is taken by another tensor of test.gguf"));
}

TEST(Broken, Dimensions) {
  const RawFile file = sample();
  const std::size_t n_dims = file.at("w n_dims");
  for (const std::uint32_t n : {0u, 5u, 0xFFFFFFFFu}) {
    EXPECT_EQ(broken(file, n_dims, n),
              at(n_dims,
                 fmt::format("tensor 1 'w': the number of dimensions is {}, expected 1 to 4", n)));
  }
  const std::size_t ne = file.at("w ne");
  for (const std::int64_t n :
       {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(broken(file, ne + 8, n),
              at(ne + 8, fmt::format("tensor 1 'w': dimension 1 is {}, expected at least 1", n)));
  }
  EXPECT_EQ(
      broken(file, ne, std::int64_t{65}),
      at(ne - 4, "tensor 1 'w': dimension 0 is 65, expected a multiple of 32, the block of Q4_0"));
}

TEST(Broken, ProductOfDimensionsOverflows) {
  const RawFile file = sample();
  const std::size_t ne = file.at("w ne");
  EXPECT_EQ(broken(file, ne + 8, std::int64_t{1} << 62),
            at(ne - 4,
               "tensor 1 'w': 64 x 4611686018427387904 x 1 x 1 elements of Q4_0 take more than "
               "2^64 bytes"));
  RawFile wrapping;  // 2^32 * 2^32 bytes wrap to 0
  wrapping.begin(3, 1, 0)
      .tensor("t", {std::int64_t{1} << 32, std::int64_t{1} << 32}, 24, 0)
      .pad(32)
      .zeros(64);
  EXPECT_THAT(broken(wrapping), HasSubstr("take more than 2^64 bytes"));
  RawFile wide;
  wide.begin(3, 1, 0)
      .tensor("t", {std::numeric_limits<std::int64_t>::max()}, 27, 0)
      .pad(32)
      .zeros(64);
  EXPECT_THAT(
      broken(wide),
      HasSubstr("9223372036854775807 x 1 x 1 x 1 elements of I64 take more than 2^64 bytes"));
}

TEST(Broken, TensorType) {
  const RawFile file = sample();
  const std::size_t where = file.at("w type");
  const auto says = [&](std::uint32_t id) { return broken(file, where, id); };
  EXPECT_EQ(
      says(4),
      at(where,
         "tensor 1 'w': unknown tensor type 4: Q4_2 and Q4_3 were given up in 2023; convert the "
         "model again"));
  EXPECT_THAT(says(15),
              HasSubstr("tensor 1 'w': unknown tensor type 15: it exists in memory only"));
  EXPECT_THAT(says(31), HasSubstr("unknown tensor type 31: files re-packed for ARM"));
  for (const std::uint32_t id : {43u, 142u, 0xFFFFFFFFu}) {
    EXPECT_EQ(
        says(id),
        at(where,
           fmt::format("tensor 1 'w': unknown tensor type {}: the file is broken, newer than this "
                       "program, or of a fork with types of its own",
                       id)));
  }
}

TEST(Broken, DataOffset) {
  const RawFile file = sample();
  const std::size_t where = file.at("w offset");
  EXPECT_EQ(
      broken(file, where, std::uint64_t{33}),
      at(where, "tensor 1 'w': the data offset is 33, expected a multiple of the alignment, 32"));
  for (const std::uint64_t offset : {std::uint64_t{64}, std::uint64_t{1} << 40, kHuge - 31}) {
    EXPECT_EQ(broken(file, where, offset),
              at(where, fmt::format("tensor 1 'w': the data takes 72 bytes from offset {} of the "
                                    "data section at byte {}, "
                                    "but the file has {} bytes in all (is it complete?)",
                                    offset, file.at("data"), file.bytes().size())));
  }
}

TEST(Broken, OverlappingTensors) {
  const RawFile file = sample();
  EXPECT_EQ(
      broken(file, file.at("w offset"), std::uint64_t{0}),
      at(file.at("w"),
         fmt::format(
             "tensor 1 'w': the data starts at byte {0}, inside that of tensor 'norm.weight', "
             "whose 24 bytes of F32 start at byte {0}",
             file.at("data"))));
  RawFile reversed;
  reversed.begin(3, 2, 0)
      .mark("first")
      .tensor("a", {8}, 0, 32)
      .tensor("b", {8}, 0, 0)
      .pad(32)
      .zeros(64);
  EXPECT_EQ(broken(reversed), "no error");
  const std::size_t first = reversed.at("first");
  EXPECT_THAT(broken(reversed, reversed.at("b ne"), std::int64_t{9}),
              StartsWith(at(first, "tensor 0 'a': the data starts at byte")));
}

// ---- everywhere ----

TEST(Broken, CutAtEveryByte) {
  const RawFile file = sample();
  for (std::size_t size = 0; size < file.bytes().size(); ++size) {
    // A copy of exactly that size: the address sanitizer sees a read past its end.
    const std::vector<std::byte> cut(file.bytes().begin(),
                                     file.bytes().begin() + static_cast<std::ptrdiff_t>(size));
    const auto error = parse_error(cut);
    ASSERT_TRUE(error) << size;
    EXPECT_THAT(*error, StartsWith("test.gguf: byte ")) << size;
    if (size >= 4) {
      EXPECT_THAT(*error, HasSubstr("is it complete?")) << size;
    }
  }
}

TEST(Broken, NoChangedByteDoesHarm) {
  const RawFile raw = sample();
  std::size_t refused = 0;
  for (std::size_t i = 0; i < raw.at("data"); ++i) {
    for (int value = 0; value < 256; ++value) {
      const std::vector<std::byte> changed = raw.with(i, static_cast<std::uint8_t>(value));
      const auto error = parse_error(changed);  // anything but Error(kInput) fails the test
      if (error) {
        ++refused;
        EXPECT_THAT(*error, StartsWith("test.gguf: byte "));
      } else {
        const File file = parse(changed);
        for (const TensorInfo& tensor : file.tensors()) {
          ASSERT_GE(tensor.data.data(), changed.data());
          ASSERT_LE(tensor.data.data() + tensor.data.size(), changed.data() + changed.size());
        }
      }
    }
  }
  EXPECT_GT(refused, raw.at("data") * 128) << "most bytes of a header have few right values";
}

// ---- the demo model ----

class BrokenDemo : public testing::Test {
 protected:
  BrokenDemo() {
    const MappedFile map =
        MappedFile::open(std::filesystem::path(STRATA_SOURCE_DIR) / "data/strata-demo.gguf");
    bytes_.assign(map.bytes().begin(), map.bytes().end());
  }

  [[nodiscard]] std::size_t offset_of(std::string_view text) const {
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(text.data()) -
                                    bytes_.data());
  }

  // What opening says with `value` at `offset`; the bytes are restored.
  template <class T>
  std::string with(std::size_t offset, T value) {
    T saved;
    std::memcpy(&saved, bytes_.data() + offset, sizeof(T));
    std::memcpy(bytes_.data() + offset, &value, sizeof(T));
    const auto error = parse_error(bytes_);
    std::memcpy(bytes_.data() + offset, &saved, sizeof(T));
    return error.value_or("no error");
  }

  std::vector<std::byte> bytes_;
};

TEST_F(BrokenDemo, CutAtEvery4KiB) {
  const File whole = parse(bytes_);
  const std::byte* end = bytes_.data();
  for (const TensorInfo& tensor : whole.tensors())
    end = std::max(end, tensor.data.data() + tensor.data.size());
  const auto needed = static_cast<std::size_t>(end - bytes_.data());
  for (std::size_t size = 0; size < needed; size += 4096) {
    const auto error = parse_error(std::span(bytes_).first(size));
    ASSERT_TRUE(error) << size;
    EXPECT_THAT(*error, StartsWith("test.gguf: byte ")) << size;
  }
  EXPECT_FALSE(parse_error(std::span(bytes_).first(needed)));
  EXPECT_TRUE(parse_error(std::span(bytes_).first(needed - 1)));
}

TEST_F(BrokenDemo, EveryMetadataEntry) {
  const File file = parse(bytes_);
  for (std::size_t i = 0; i < file.metadata().size(); ++i) {
    const KeyValue& entry = file.metadata()[i];
    const std::size_t key = offset_of(entry.key);
    const std::size_t type = key + entry.key.size();
    const std::string named = fmt::format("metadata entry {} '{}': ", i, entry.key);
    EXPECT_THAT(with(key - 8, kHuge),
                StartsWith(at(key - 8, fmt::format("metadata entry {}: the key has length", i))));
    EXPECT_THAT(with(key - 8, std::uint64_t{0}), HasSubstr("the key has 0 bytes, expected"));
    EXPECT_THAT(with(key, std::uint8_t{0xFF}), HasSubstr("is not valid UTF-8"));
    EXPECT_EQ(with(type, std::uint32_t{99}),
              at(type, named + "the value type is 99, expected 0 to 12"));
    if (entry.type_name == "str") {
      EXPECT_THAT(with(type + 4, kHuge), StartsWith(at(type + 4, named + "the value has length")));
    } else if (entry.type_name.starts_with("arr")) {
      EXPECT_EQ(with(type + 4, std::uint32_t{99}),
                at(type + 4, named + "the element type is 99, expected 0 to 12"));
      EXPECT_THAT(with(type + 8, kHuge), StartsWith(at(type + 8, named + "the element count is")));
    } else if (entry.type_name == "bool") {
      EXPECT_THAT(with(type + 4, std::uint8_t{2}), HasSubstr("expected 0 or 1"));
    }
  }
}

TEST_F(BrokenDemo, EveryTensor) {
  const File file = parse(bytes_);
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const TensorInfo& tensor = file.tensors()[i];
    const std::size_t name = offset_of(tensor.name);
    const std::size_t n_dims = name + tensor.name.size();
    const std::size_t type = n_dims + 4 + 8 * static_cast<std::size_t>(tensor.n_dims);
    const std::string named = fmt::format("tensor {} '{}': ", i, tensor.name);
    EXPECT_THAT(with(name - 8, kHuge),
                StartsWith(at(name - 8, fmt::format("tensor {}: the name has length", i))));
    EXPECT_THAT(with(n_dims, std::uint32_t{5}),
                StartsWith(at(n_dims, named + "the number of dimensions is 5")));
    EXPECT_THAT(with(n_dims + 4, std::int64_t{-1}),
                StartsWith(at(n_dims + 4, named + "dimension 0 is -1")));
    EXPECT_THAT(with(type, std::uint32_t{77}),
                StartsWith(at(type, named + "unknown tensor type 77")));
    EXPECT_THAT(with(type + 4, std::uint64_t{1}),
                StartsWith(at(type + 4, named + "the data offset is 1")));
    EXPECT_THAT(with(type + 4, kHuge - 31), StartsWith(at(type + 4, named + "the data takes")));
  }
}

}  // namespace
}  // namespace strata::gguf
