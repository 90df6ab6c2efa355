#include "strata/text/unicode.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <vector>

namespace strata::text {
namespace {

struct Decomposition {
  std::uint32_t code, first, second;
};
struct CodeRange {
  std::uint32_t first, last;
  std::uint8_t value;
};

#include "src/text/unicode_nfc_tables.inc"

// Below this every code point is a starter that nothing composes with.
constexpr char32_t kFirstUnsafe = 0x300;

// Hangul syllables, Unicode 3.12.
constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

bool in_plain_page(char32_t code) noexcept {
  const std::size_t page = code >> 8;
  return page >> 6 >= std::size(kPages) || ((kPages[page >> 6] >> (page & 63)) & 1) == 0;
}

template <std::size_t N>
std::uint8_t value_of(const CodeRange (&ranges)[N], char32_t code) noexcept {
  const auto* range =
      std::upper_bound(std::begin(ranges), std::end(ranges), code,
                       [](char32_t value, const CodeRange& entry) { return value < entry.first; });
  if (range == std::begin(ranges)) return 0;
  --range;
  return code <= range->last ? range->value : std::uint8_t{0};
}

std::uint8_t combining_class(char32_t code) noexcept {
  return code < kFirstUnsafe || in_plain_page(code) ? std::uint8_t{0}
                                                    : value_of(kCombiningClasses, code);
}

struct Mark {
  char32_t code;
  std::uint8_t combining;
};

void decompose(char32_t code, std::vector<Mark>& out) {
  if (code - kSBase < kSCount) {
    const char32_t index = code - kSBase;
    out.push_back({kLBase + index / (kVCount * kTCount), 0});
    out.push_back({kVBase + index % (kVCount * kTCount) / kTCount, 0});
    if (index % kTCount != 0) out.push_back({kTBase + index % kTCount, 0});
    return;
  }
  if (code >= 0xC0) {
    const auto* entry = std::lower_bound(
        std::begin(kDecompositions), std::end(kDecompositions), code,
        [](const Decomposition& item, char32_t value) { return item.code < value; });
    if (entry != std::end(kDecompositions) && entry->code == code) {
      decompose(entry->first, out);  // at most four deep in Unicode's data
      if (entry->second != 0) decompose(entry->second, out);
      return;
    }
  }
  out.push_back({code, combining_class(code)});
}

// The primary composite of two characters, 0 when there is none.
char32_t compose(char32_t first, char32_t second) noexcept {
  if (first - kLBase < kLCount && second - kVBase < kVCount) {
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  }
  if (first - kSBase < kSCount && (first - kSBase) % kTCount == 0 &&
      second - kTBase - 1 < kTCount - 1) {
    return first + (second - kTBase);
  }
  const auto* entry = std::lower_bound(
      std::begin(kCompositions), std::end(kCompositions), 0, [&](std::uint16_t index, int) {
        const Decomposition& item = kDecompositions[index];
        return item.first != first ? item.first < first : item.second < second;
      });
  if (entry == std::end(kCompositions)) return 0;
  const Decomposition& item = kDecompositions[*entry];
  return item.first == first && item.second == second ? item.code : char32_t{0};
}

// Canonical ordering: each run of non-starters sorted by combining class, equal classes left in
// order.
void reorder(std::vector<Mark>& marks) {
  for (std::size_t begin = 0; begin < marks.size();) {
    if (marks[begin].combining == 0) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < marks.size() && marks[end].combining != 0) ++end;
    if (end - begin > 1) {
      std::stable_sort(marks.begin() + static_cast<std::ptrdiff_t>(begin),
                       marks.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const Mark& a, const Mark& b) { return a.combining < b.combining; });
    }
    begin = end;
  }
}

void recompose(std::vector<Mark>& marks) {
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::size_t starter = kNone;
  std::size_t kept = 0;
  std::uint8_t last_class = 0;  // of the character kept after the starter, 0 when there is none
  for (const Mark mark : marks) {
    const bool blocked = last_class != 0 && last_class >= mark.combining;
    if (starter != kNone && !blocked) {
      if (const char32_t composite = compose(marks[starter].code, mark.code); composite != 0) {
        marks[starter].code = composite;
        continue;
      }
    }
    if (mark.combining == 0) starter = kept;
    last_class = mark.combining;
    marks[kept++] = mark;
  }
  marks.resize(kept);
}

// The second byte's allowed range depends on the first (Unicode table 3-7).
struct LeadRule {
  std::uint8_t size, low, high;
};

LeadRule lead_rule(std::uint8_t lead) noexcept {
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

std::size_t ascii_prefix(std::string_view text) noexcept {
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  while (at < text.size() && static_cast<std::uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

Utf8Char decode_utf8(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, Utf8Status::kValid};
  const LeadRule rule = lead_rule(lead);
  if (rule.size == 0) return {0, 1, Utf8Status::kInvalid};
  char32_t code = lead & (0x7FU >> rule.size);
  for (std::uint8_t i = 1; i < rule.size; ++i) {
    if (i == text.size()) return {0, i, Utf8Status::kIncomplete};
    const std::uint8_t low = i == 1 ? rule.low : std::uint8_t{0x80};
    const std::uint8_t high = i == 1 ? rule.high : std::uint8_t{0xBF};
    if (byte(i) < low || byte(i) > high) return {0, i, Utf8Status::kInvalid};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  return {code, rule.size, Utf8Status::kValid};
}

std::size_t valid_utf8_prefix(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<std::uint8_t>(text[at]) < 0x80) {
      at += ascii_prefix(text.substr(at));
      continue;
    }
    const Utf8Char next = decode_utf8(text.substr(at));
    if (next.status != Utf8Status::kValid) return at;
    at += next.size;
  }
  return at;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto tail = [&](int shift) {
    text.push_back(static_cast<char>(0x80U | ((code_point >> shift) & 0x3FU)));
  };
  if (code_point < 0x80) {
    text.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    text.push_back(static_cast<char>(0xC0U | code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    text.push_back(static_cast<char>(0xE0U | code_point >> 12));
    tail(6);
    tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0U | code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

bool may_need_nfc(std::string_view text) noexcept {
  std::uint8_t last_class = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<std::uint8_t>(text[at]);
    if (lead < 0x80) {
      at += ascii_prefix(text.substr(at));
      last_class = 0;
      continue;
    }
    const Utf8Char next = decode_utf8(text.substr(at));
    at += next.size;
    if (next.code_point < kFirstUnsafe || in_plain_page(next.code_point)) {
      last_class = 0;
      continue;
    }
    const std::uint8_t now = value_of(kCombiningClasses, next.code_point);
    if (now != 0 && last_class > now) return true;
    if (value_of(kUnsafe, next.code_point) != 0) return true;
    last_class = now;
  }
  return false;
}

std::string to_nfc(std::string_view text) {
  if (!may_need_nfc(text)) return std::string(text);
  std::vector<Mark> marks;
  marks.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char next = decode_utf8(text.substr(at));
    decompose(next.code_point, marks);
    at += next.size;
  }
  reorder(marks);
  recompose(marks);
  std::string result;
  result.reserve(text.size());
  for (const Mark mark : marks) append_utf8(result, mark.code);
  return result;
}

}  // namespace strata::text
