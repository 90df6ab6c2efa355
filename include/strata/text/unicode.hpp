// UTF-8 and Unicode normalisation form C, as far as tokenizers need them. All functions are pure
// and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Status : std::uint8_t {
  kValid,
  kInvalid,     // no continuation can make these bytes a character
  kIncomplete,  // the text ends inside a character that is well-formed so far
};

struct Utf8Char {
  char32_t code_point;  // only when kValid
  std::uint8_t
      size;  // bytes; of an ill-formed sequence, its maximal subpart (Unicode 3.9, at least 1)
  Utf8Status status;
};

// The character at the front of `text`, which must not be empty. Overlong forms, surrogates and
// values above U+10FFFF are invalid (Unicode table 3-7).
[[nodiscard]] Utf8Char decode_utf8(std::string_view text) noexcept;

// Bytes of the longest well-formed prefix; text.size() when all of it is well-formed.
[[nodiscard]] std::size_t valid_utf8_prefix(std::string_view text) noexcept;

// `code_point` must be a Unicode scalar value.
void append_utf8(std::string& text, char32_t code_point);

// False only when `text` (well-formed UTF-8) is in form C for sure; true means "run to_nfc". Fast:
// about 1 GB/s on ASCII.
[[nodiscard]] bool may_need_nfc(std::string_view text) noexcept;

// Normalisation form C of `text`, which must be well-formed UTF-8. O(n log n) at worst.
// The Unicode version is the first line of src/text/unicode_nfc_tables.inc.
[[nodiscard]] std::string to_nfc(std::string_view text);

}  // namespace strata::text
