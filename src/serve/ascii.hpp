// Text as HTTP and models' markup have it: ASCII, whatever the locale.
#pragma once

#include <string>
#include <string_view>

namespace strata::serve {

[[nodiscard]] inline std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return result;
}

inline constexpr std::string_view kWhiteSpace = " \t\r\n";

// Without the characters of `blanks` at either end.
[[nodiscard]] inline std::string_view trim(std::string_view text,
                                           std::string_view blanks = kWhiteSpace) noexcept {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace strata::serve
