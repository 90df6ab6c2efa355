#include "src/gguf/rules.hpp"

#include <fmt/core.h>

namespace strata::gguf {
namespace {

// The length of the well-formed UTF-8 sequence at the start of `text` (not empty), 0 if there is
// none.
std::size_t utf8_sequence(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  // The second byte's range excludes overlong forms, surrogates and what is above U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

// Five digits at `position`, nullopt otherwise.
std::optional<std::int64_t> five_digits(std::string_view text, std::size_t position) {
  const std::string_view digits = text.substr(position, 5);
  std::int64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kShown = 80;
  std::string out = "'";
  std::string_view rest = name;
  while (!rest.empty() && name.size() - rest.size() < kShown) {
    const auto byte = static_cast<unsigned char>(rest[0]);
    const std::size_t length = utf8_sequence(rest);
    if (length == 0 || byte < 0x20 || byte == 0x7F ||
        byte == 0xC2) {  // 0xC2: the C1 control characters start with it
      out += fmt::format("\\x{:02x}", byte);
      rest.remove_prefix(1);
    } else {
      out += rest.substr(0, length);
      rest.remove_prefix(length);
    }
  }
  out += rest.empty() ? "'" : fmt::format("...' ({} bytes)", name.size());
  return out;
}

std::optional<ShardName> parse_shard_name(std::string_view file_name) {
  constexpr std::string_view kTail = "-00001-of-00001.gguf";
  if (file_name.size() <= kTail.size()) return std::nullopt;
  const std::size_t start = file_name.size() - kTail.size();
  const std::string_view tail = file_name.substr(start);
  const auto number = five_digits(tail, 1);
  const auto count = five_digits(tail, 10);
  if (!number || !count || tail[0] != '-' || tail.substr(6, 4) != "-of-" ||
      tail.substr(15) != ".gguf") {
    return std::nullopt;
  }
  return ShardName{std::string(file_name.substr(0, start)), *number, *count};
}

std::string shard_file_name(std::string_view prefix, std::int64_t number, std::int64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number, count);
}

std::optional<std::uint64_t> row_bytes(Type type, std::int64_t ne0) noexcept {
  const TypeTraits& block = traits(type);
  if (ne0 < 1 || ne0 % block.block_elems != 0) return std::nullopt;
  const auto blocks = static_cast<std::uint64_t>(ne0) / block.block_elems;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(blocks, std::uint64_t{block.block_bytes}, &bytes)) return std::nullopt;
  return bytes;
}

std::optional<std::uint64_t> tensor_bytes(Type type, std::span<const std::int64_t> ne) noexcept {
  if (ne.empty()) return std::nullopt;
  std::optional<std::uint64_t> bytes = row_bytes(type, ne[0]);
  for (std::size_t d = 1; bytes && d < ne.size(); ++d) {
    std::uint64_t product = 0;
    const bool overflow =
        __builtin_mul_overflow(*bytes, static_cast<std::uint64_t>(ne[d]), &product);
    if (ne[d] < 1 || overflow) return std::nullopt;
    bytes = product;
  }
  return bytes;
}

}  // namespace strata::gguf
