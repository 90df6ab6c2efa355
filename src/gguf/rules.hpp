// What the format allows, in one place for the reader (which checks it) and the writer (which keeps
// it).
#pragma once

#include "strata/gguf/types.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace strata::gguf {

// Fields are copied as the host stores them.
static_assert(std::endian::native == std::endian::little,
              "GGUF files are read on little-endian machines");

// As stored in a file, in front of every metadata value.
enum class ValueType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

struct ValueTypeTraits {
  std::string_view name;        // "u32"
  std::string_view array_name;  // "arr[u32]"
  std::size_t min_bytes;        // of one value in the file: its size, or that of an empty string
};

inline constexpr std::array<ValueTypeTraits, 13> kValueTypes = {{
    {"u8", "arr[u8]", 1},
    {"i8", "arr[i8]", 1},
    {"u16", "arr[u16]", 2},
    {"i16", "arr[i16]", 2},
    {"u32", "arr[u32]", 4},
    {"i32", "arr[i32]", 4},
    {"f32", "arr[f32]", 4},
    {"bool", "arr[bool]", 1},
    {"str", "arr[str]", 8},
    {"arr", "arr[arr]", 12},
    {"u64", "arr[u64]", 8},
    {"i64", "arr[i64]", 8},
    {"f64", "arr[f64]", 8},
}};

[[nodiscard]] constexpr const ValueTypeTraits& value_traits(ValueType type) noexcept {
  return kValueTypes[static_cast<std::size_t>(type)];
}

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr std::uint32_t kDefaultAlignment = 32;
// The specification asks for a multiple of 8; more, tensors are read in place as arrays of up to
// 8-byte numbers.
inline constexpr std::uint32_t kMinAlignment = 8;
inline constexpr std::size_t kMaxKeyBytes = 65535;
inline constexpr std::size_t kMaxTensorNameBytes = 64;
inline constexpr int kMaxDims = 4;
inline constexpr std::int64_t kMaxShards = 99999;  // five digits in a shard's name
// Everything in front of the tensor data. The largest known vocabularies take about 20 MB; the
// limit bounds what a hostile file of many gigabytes can make a reader allocate (about ten times
// the header).
inline constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{256} << 20;
// The least bytes of an entry (empty value, one-byte name): how many of them a file has room for.
inline constexpr std::uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1;
inline constexpr std::uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;

inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr std::string_view kSplitPrefix = "split.";
inline constexpr std::string_view kSplitNoKey = "split.no";
inline constexpr std::string_view kSplitCountKey = "split.count";
inline constexpr std::string_view kSplitTensorsKey = "split.tensors.count";

[[nodiscard]] constexpr bool valid_alignment(std::uint64_t alignment) noexcept {
  return alignment >= kMinAlignment && alignment <= 0x80000000u && std::has_single_bit(alignment);
}

[[nodiscard]] constexpr std::uint64_t align_up(std::uint64_t value,
                                               std::uint64_t alignment) noexcept {
  return (value + alignment - 1) & ~(alignment - 1);
}

// Well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

// A name from a file, in quotes, fit for a message: control and non-UTF-8 bytes as \xNN, shortened
// when long.
[[nodiscard]] std::string in_quotes(std::string_view name);

// PREFIX-00001-of-00005.gguf
struct ShardName {
  std::string prefix;
  std::int64_t number;  // from 1
  std::int64_t count;
};
[[nodiscard]] std::optional<ShardName> parse_shard_name(std::string_view file_name);
[[nodiscard]] std::string shard_file_name(std::string_view prefix, std::int64_t number,
                                          std::int64_t count);

// Bytes of a row of `ne0` elements: nullopt when ne0 is not a positive multiple of the block or the
// product overflows.
[[nodiscard]] std::optional<std::uint64_t> row_bytes(Type type, std::int64_t ne0) noexcept;
// Bytes of the whole tensor: nullopt also when any dimension is below 1.
[[nodiscard]] std::optional<std::uint64_t> tensor_bytes(Type type,
                                                        std::span<const std::int64_t> ne) noexcept;

}  // namespace strata::gguf
