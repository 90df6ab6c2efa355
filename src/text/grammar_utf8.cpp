#include "src/text/grammar_utf8.hpp"

#include "strata/text/unicode.hpp"

#include <algorithm>
#include <string>

namespace strata::text::grammar {
namespace {

constexpr char32_t kBeforeSurrogates = 0xD7FF;
constexpr char32_t kAfterSurrogates = 0xE000;
constexpr char32_t kLastCodePoint = 0x10FFFF;

// Of a range whose characters all have the same size in UTF-8. A byte carries 6 bits; where the two
// ends differ above some bytes, these must run over all their values, or the range is cut.
void split(char32_t first, char32_t last, std::vector<Utf8Range>& out) {
  std::string low, high;
  append_utf8(low, first);
  append_utf8(high, last);
  for (std::size_t i = 1; i < low.size(); ++i) {
    const char32_t mask = (char32_t{1} << 6 * i) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      split(first, first | mask, out);
      split((first | mask) + 1, last, out);
      return;
    }
    if ((last & mask) != mask) {
      split(first, (last & ~mask) - 1, out);
      split(last & ~mask, last, out);
      return;
    }
  }
  Utf8Range range{};
  range.size = low.size();
  for (std::size_t i = 0; i < low.size(); ++i) {
    range.bytes[i] = {static_cast<std::uint8_t>(low[i]), static_cast<std::uint8_t>(high[i])};
  }
  out.push_back(range);
}

}  // namespace

CharSet::CharSet(std::vector<Range> ranges) {
  std::vector<Range> parts;
  for (const Range& range : ranges) {
    const Range below = {range.first, std::min(range.last, kBeforeSurrogates)};
    const Range above = {std::max(range.first, kAfterSurrogates),
                         std::min(range.last, kLastCodePoint)};
    for (const Range& part : {below, above}) {
      if (part.first <= part.last) parts.push_back(part);
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  for (const Range& part : parts) {
    if (!ranges_.empty() && part.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, part.last);
    } else {
      ranges_.push_back(part);
    }
  }
}

CharSet CharSet::all() {
  return CharSet({{0, kBeforeSurrogates}, {kAfterSurrogates, kLastCodePoint}});
}

CharSet CharSet::complement() const { return all().without(*this); }

CharSet CharSet::without(const CharSet& other) const {
  CharSet result;
  for (Range range : ranges_) {
    for (const Range& hole : other.ranges_) {
      if (hole.last < range.first || hole.first > range.last) continue;
      if (hole.first > range.first) result.ranges_.push_back({range.first, hole.first - 1});
      range.first = hole.last + 1;
    }
    if (range.first <= range.last) result.ranges_.push_back(range);
  }
  return result;
}

bool CharSet::contains(char32_t code_point) const noexcept {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return range.first <= code_point && code_point <= range.last;
  });
}

std::vector<Utf8Range> utf8_ranges(const CharSet& set) {
  std::vector<Utf8Range> out;
  for (const CharSet::Range& range : set.ranges()) {
    char32_t first = range.first;
    for (const char32_t last :
         {char32_t{0x7F}, char32_t{0x7FF}, char32_t{0xFFFF}, kLastCodePoint}) {
      if (first > last || first > range.last) continue;
      split(first, std::min(last, range.last), out);
      first = last + 1;
    }
  }
  return out;
}

const CharSet& plain_set() {
  static const CharSet set = CharSet::all().without(CharSet({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
  return set;
}

const std::vector<Utf8Range>& plain_characters() {
  static const std::vector<Utf8Range> ranges = utf8_ranges(plain_set());
  return ranges;
}

void add_characters(Nfa& nfa, State from, const CharSet& set, State to) {
  for (const Utf8Range& range : utf8_ranges(set)) {
    State at = from;
    for (std::size_t i = 0; i < range.size; ++i) {
      const State next = i + 1 == range.size ? to : nfa.add();
      nfa.bytes(at, range.bytes[i].first, range.bytes[i].last, next);
      at = next;
    }
  }
}

}  // namespace strata::text::grammar
