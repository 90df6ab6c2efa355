// Sets of characters, and the UTF-8 they are written in.
#pragma once

#include "src/text/grammar_automaton.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace strata::text::grammar {

// A set of Unicode scalar values (code points but for the surrogates).
class CharSet {
 public:
  struct Range {
    char32_t first, last;
    bool operator==(const Range&) const = default;
  };

  CharSet() = default;
  // Ranges may overlap and hold surrogates, which are left out.
  explicit CharSet(std::vector<Range> ranges);
  [[nodiscard]] static CharSet all();

  [[nodiscard]] CharSet complement() const;
  [[nodiscard]] CharSet without(const CharSet& other) const;
  [[nodiscard]] bool contains(char32_t code_point) const noexcept;
  // In order, neither overlapping nor touching.
  [[nodiscard]] const std::vector<Range>& ranges() const noexcept { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// Characters whose UTF-8 has the same size and differs, byte by byte, within ranges.
struct Utf8Range {
  struct Bytes {
    std::uint8_t first, last;
  };
  std::array<Bytes, 4> bytes;
  std::size_t size;
};

// In order. Together they are exactly the characters of `set`.
[[nodiscard]] std::vector<Utf8Range> utf8_ranges(const CharSet& set);

// Characters that stand for themselves in a JSON string: no control, quote or backslash.
[[nodiscard]] const CharSet& plain_set();
[[nodiscard]] const std::vector<Utf8Range>& plain_characters();

// Edges for one character of `set`, in UTF-8.
void add_characters(Nfa& nfa, State from, const CharSet& set, State to);

}  // namespace strata::text::grammar
