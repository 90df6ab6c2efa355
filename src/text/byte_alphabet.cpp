#include "src/text/byte_alphabet.hpp"

#include "strata/text/unicode.hpp"

#include <array>
#include <cstdint>

namespace strata::text {
namespace {

// Bytes that are printable Latin-1 characters stand for themselves; the other 68, in order, are
// U+0100 onwards.
constexpr std::size_t kAlphabetEnd = 0x100 + 68;

constexpr bool is_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<std::int16_t, kAlphabetEnd> make_inverse() {
  std::array<std::int16_t, kAlphabetEnd> inverse{};
  for (auto& byte : inverse) byte = -1;
  std::size_t next = 0x100;
  for (unsigned byte = 0; byte < 0x100; ++byte) {
    inverse[is_itself(byte) ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return inverse;
}

constexpr auto kInverse = make_inverse();

}  // namespace

std::optional<std::string> bytes_of_alphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char next = decode_utf8(text);
    if (next.status != Utf8Status::kValid || next.code_point >= kAlphabetEnd) return std::nullopt;
    const std::int16_t byte = kInverse[next.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    text.remove_prefix(next.size);
  }
  return bytes;
}

}  // namespace strata::text
