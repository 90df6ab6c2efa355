// Characters in UTF-8 text, and the properties of characters that Python's str methods use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace strata::text::jinja {

struct Decoded {
  char32_t code;
  std::uint32_t size;  // bytes
};

// The code point at byte `at`. The text must be valid UTF-8 and `at` the start of a code point.
[[nodiscard]] Decoded decode(std::string_view text, std::size_t at);
[[nodiscard]] bool is_code_point(
    std::uint32_t code);  // a Unicode scalar value: no surrogate, at most U+10FFFF

// The byte where the code point before byte `at` starts; `at` > 0.
[[nodiscard]] std::size_t previous(std::string_view text, std::size_t at);
[[nodiscard]] std::size_t count_code_points(std::string_view text);
// The byte offset of code point number `index`, or the size of the text when it has no more than
// that.
[[nodiscard]] std::size_t offset_of(std::string_view text, std::size_t index);

// The text with every ill-formed sequence replaced by U+FFFD.
[[nodiscard]] std::string repair_utf8(std::string_view text);

[[nodiscard]] bool is_space(char32_t code);      // str.isspace
[[nodiscard]] bool is_alpha(char32_t code);      // str.isalpha
[[nodiscard]] bool is_decimal(char32_t code);    // str.isdecimal
[[nodiscard]] bool is_alnum(char32_t code);      // str.isalnum
[[nodiscard]] bool is_printable(char32_t code);  // str.isprintable
[[nodiscard]] bool is_upper(char32_t code);      // upper or title case letter
[[nodiscard]] bool is_lower(char32_t code);

// Case mappings of one code point, appended to `out`. Upper case may be several code points (U+00DF
// becomes "SS").
void append_upper(char32_t code, std::string& out);
void append_lower(char32_t code, std::string& out);

// The tables behind the case mappings: code points first, first + stride, ... last map to
// themselves + delta.
struct CaseRange {
  std::uint32_t first, last;
  std::int32_t delta;
  std::uint32_t stride;
};
struct CaseExpansion {
  std::uint32_t code;
  const char* upper;
};
[[nodiscard]] std::span<const CaseRange> upper_ranges();
[[nodiscard]] std::span<const CaseRange> lower_ranges();
[[nodiscard]] std::span<const CaseExpansion> upper_expansions();

}  // namespace strata::text::jinja
