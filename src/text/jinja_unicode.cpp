#include "src/text/jinja_unicode.hpp"

#include "strata/base/error.hpp"
#include "strata/text/unicode.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <memory>

namespace strata::text::jinja {
namespace {

// A set of code points named by a PCRE2 character class. Immutable once made, so safe to share
// between threads.
class CodePointSet {
 public:
  explicit CodePointSet(const char* pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, &error,
                              &offset, nullptr));
    if (code_ == nullptr) {
      fail(ErrorKind::kInternal, "character class {} does not compile (PCRE2 error {})", pattern,
           error);
    }
  }
  [[nodiscard]] bool contains(char32_t code) const {
    std::string text;
    append_utf8(text, code);
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
        pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                       match.get(), nullptr) > 0;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
};

constexpr bool ascii_letter(char32_t code) {
  return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
}
constexpr bool ascii_digit(char32_t code) { return code >= '0' && code <= '9'; }

// The range that holds `code`, or null.
const CaseRange* find_range(std::span<const CaseRange> ranges, char32_t code) {
  const auto* const found =
      std::partition_point(ranges.data(), ranges.data() + ranges.size(),
                           [code](const CaseRange& range) { return range.last < code; });
  if (found == ranges.data() + ranges.size() || code < found->first) return nullptr;
  return (code - found->first) % found->stride == 0 ? found : nullptr;
}

}  // namespace

Decoded decode(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {lead, 1};
  const Utf8Char character = decode_utf8(text.substr(at));
  return {character.code_point, character.size};
}

bool is_code_point(std::uint32_t code) {
  return code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
}

std::size_t previous(std::string_view text, std::size_t at) {
  do {
    --at;
  } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::size_t offset_of(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  while (at < text.size()) {
    const bool starts = (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
    if (starts && index-- == 0) return at;
    ++at;
  }
  return at;
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += kReplacement;
    text.remove_prefix(decode_utf8(text).size);
  }
  return out;
}

bool is_space(char32_t code) {
  if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 28 && code <= 32);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_alpha(char32_t code) {
  if (code < 0x80) return ascii_letter(code);
  static const CodePointSet set("\\p{L}");
  return set.contains(code);
}

bool is_decimal(char32_t code) {
  if (code < 0x80) return ascii_digit(code);
  static const CodePointSet set("\\p{Nd}");
  return set.contains(code);
}

bool is_alnum(char32_t code) {
  if (code < 0x80) return ascii_letter(code) || ascii_digit(code);
  static const CodePointSet set("[\\p{L}\\p{N}]");
  return set.contains(code);
}

bool is_printable(char32_t code) {
  if (code < 0x80) return code >= 0x20 && code < 0x7F;
  static const CodePointSet set("[^\\p{C}\\p{Z}]");
  return set.contains(code);
}

bool is_upper(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z';
  static const CodePointSet set("[\\p{Lu}\\p{Lt}]");
  return set.contains(code);
}

bool is_lower(char32_t code) {
  if (code < 0x80) return code >= 'a' && code <= 'z';
  static const CodePointSet set("\\p{Ll}");
  return set.contains(code);
}

void append_upper(char32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code >= 'a' && code <= 'z' ? code - 32 : code));
    return;
  }
  const auto expansions = upper_expansions();
  const auto found =
      std::partition_point(expansions.begin(), expansions.end(),
                           [code](const CaseExpansion& entry) { return entry.code < code; });
  if (found != expansions.end() && found->code == code) {
    out += found->upper;
    return;
  }
  const CaseRange* range = find_range(upper_ranges(), code);
  const std::int32_t delta = range == nullptr ? 0 : range->delta;
  append_utf8(out, static_cast<char32_t>(static_cast<std::int32_t>(code) + delta));
}

void append_lower(char32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code));
    return;
  }
  if (code ==
      0x130) {  // capital I with dot above: the one letter whose lower case is two code points
    out += "i\xCC\x87";
    return;
  }
  const CaseRange* range = find_range(lower_ranges(), code);
  const std::int32_t delta = range == nullptr ? 0 : range->delta;
  append_utf8(out, static_cast<char32_t>(static_cast<std::int32_t>(code) + delta));
}

}  // namespace strata::text::jinja
