#include "src/text/jinja_strings.hpp"

#include "src/text/jinja_unicode.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

namespace strata::text::jinja {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// memmem takes linear time in glibc (two-way search), where std::string::find may take quadratic
// time.
std::size_t find_from(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return kNone;
  if (needle.empty()) return from;
  const void* found =
      ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return kNone;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::string reversed(std::string_view text) { return {text.rbegin(), text.rend()}; }

// Which code points strip() removes.
class StripSet {
 public:
  explicit StripSet(const Value& characters) {
    const auto* string = characters.string();
    whitespace_ = string == nullptr;
    if (whitespace_) return;
    for (std::size_t at = 0; at < string->text.size();) {
      const Decoded c = decode(string->bytes(), at);
      codes_.insert(c.code);
      at += c.size;
    }
  }
  [[nodiscard]] bool contains(char32_t code) const {
    return whitespace_ ? is_space(code) : codes_.contains(code);
  }

 private:
  bool whitespace_;
  std::set<char32_t> codes_;
};

using ByteRange = std::pair<std::size_t, std::size_t>;

Value slices(Runtime& runtime, const StringObject& string, const std::vector<ByteRange>& ranges) {
  std::vector<Value> parts;
  parts.reserve(ranges.size());
  for (const auto& [begin, end] : ranges) {
    parts.push_back(runtime.text(string.text.slice(begin, end), string.markup));
  }
  return runtime.list(std::move(parts));
}

std::vector<ByteRange> split_at(Runtime& runtime, std::string_view text, std::string_view separator,
                                Int limit) {
  std::vector<ByteRange> parts;
  std::size_t begin = 0;
  while (limit < 0 || static_cast<Int>(parts.size()) < limit) {
    const std::size_t found = find_from(text, separator, begin);
    if (found == kNone) break;
    runtime.check_items(parts.size() + 2);
    parts.emplace_back(begin, found);
    begin = found + separator.size();
  }
  parts.emplace_back(begin, text.size());
  return parts;
}

std::vector<ByteRange> split_at_right(Runtime& runtime, std::string_view text,
                                      std::string_view separator, Int limit) {
  // Matches are found from the end, so they differ from those from the start where they could
  // overlap. Searching the reversed text for the reversed separator keeps the search linear.
  const std::string reversed_text = reversed(text);
  const std::string reversed_separator = reversed(separator);
  std::vector<ByteRange> parts = split_at(runtime, reversed_text, reversed_separator, limit);
  for (auto& [begin, end] : parts) {
    const std::size_t reversed_begin = begin;
    begin = text.size() - end;
    end = text.size() - reversed_begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<ByteRange> split_at_space(Runtime& runtime, std::string_view text, Int limit) {
  std::vector<ByteRange> parts;
  std::size_t at = 0;
  const auto skip = [&](bool spaces) {
    while (at < text.size()) {
      const Decoded c = decode(text, at);
      if (is_space(c.code) != spaces) break;
      at += c.size;
    }
  };
  skip(true);
  while (at < text.size()) {
    runtime.check_items(parts.size() + 1);
    const std::size_t begin = at;
    if (limit >= 0 && static_cast<Int>(parts.size()) == limit) {
      parts.emplace_back(begin, text.size());
      break;
    }
    skip(false);
    parts.emplace_back(begin, at);
    skip(true);
  }
  return parts;
}

std::vector<ByteRange> split_at_space_right(Runtime& runtime, std::string_view text, Int limit) {
  std::vector<ByteRange> parts;
  std::size_t at = text.size();
  const auto skip = [&](bool spaces) {
    while (at > 0) {
      const std::size_t start = previous(text, at);
      if (is_space(decode(text, start).code) != spaces) break;
      at = start;
    }
  };
  skip(true);
  while (at > 0) {
    runtime.check_items(parts.size() + 1);
    const std::size_t end = at;
    if (limit >= 0 && static_cast<Int>(parts.size()) == limit) {
      parts.emplace_back(0, end);
      break;
    }
    skip(false);
    parts.emplace_back(at, end);
    skip(true);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

// Python's line ends; the size of the one at `at`, or 0.
std::size_t line_end_size(std::string_view text, std::size_t at) {
  const Decoded c = decode(text, at);
  if (c.code == '\r') return at + 1 < text.size() && text[at + 1] == '\n' ? 2 : 1;
  const bool ends = (c.code >= 0x0A && c.code <= 0x0C) || (c.code >= 0x1C && c.code <= 0x1E) ||
                    c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029;
  return ends ? c.size : 0;
}

}  // namespace

std::size_t find_text(Runtime& runtime, std::string_view text, std::string_view needle,
                      std::size_t from) {
  runtime.touch_bytes(text.size() + needle.size());
  return find_from(text, needle, from);
}

std::size_t find_last_text(Runtime& runtime, std::string_view text, std::string_view needle) {
  runtime.touch_bytes(4 * text.size() + needle.size());
  const std::string reversed_text = reversed(text);
  const std::string reversed_needle = reversed(needle);
  const std::size_t found = find_from(reversed_text, reversed_needle, 0);
  return found == kNone ? kNone : text.size() - found - needle.size();
}

std::size_t count_text(Runtime& runtime, std::string_view text, std::string_view needle) {
  runtime.touch_bytes(text.size());
  std::size_t count = 0;
  for (std::size_t at = find_from(text, needle, 0); at != kNone;
       at = find_from(text, needle, at + needle.size())) {
    runtime.step();
    ++count;
  }
  return count;
}

Value strip(Runtime& runtime, const Value& value, const Value& characters, Side side) {
  const StringObject& string = *value.string();
  runtime.touch_bytes(string.text.size());
  const StripSet set(characters);
  const std::string_view text = string.bytes();
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (side != Side::kRight && begin < end) {
    const Decoded c = decode(text, begin);
    if (!set.contains(c.code)) break;
    begin += c.size;
  }
  while (side != Side::kLeft && begin < end) {
    const std::size_t start = previous(text, end);
    if (!set.contains(decode(text, start).code)) break;
    end = start;
  }
  if (begin == 0 && end == text.size()) return value;
  return runtime.text(string.text.slice(begin, end), string.markup);
}

Value replace(Runtime& runtime, const StringObject& string, const StringObject& old,
              const StringObject& replacement, Int count) {
  const std::string_view text = string.bytes();
  runtime.touch_bytes(text.size() + old.text.size());
  TextBuilder out(runtime);
  std::size_t at = 0;
  if (old.text.empty()) {
    // Between all characters, and at both ends.
    while (count != 0) {
      runtime.step();
      out.append(replacement.text);
      if (count > 0) --count;
      if (at >= text.size()) break;
      const std::size_t next = at + decode(text, at).size;
      out.append(string.text, at, next);
      at = next;
    }
  } else {
    while (count != 0) {
      const std::size_t found = find_from(text, old.bytes(), at);
      if (found == kNone) break;
      runtime.step();
      out.append(string.text, at, found);
      out.append(replacement.text);
      at = found + old.text.size();
      if (count > 0) --count;
    }
  }
  out.append(string.text, std::min(at, text.size()), text.size());
  return out.value(string.markup);
}

Value split(Runtime& runtime, const Value& value, const Value& separator, Int limit,
            bool from_right) {
  const StringObject& string = *value.string();
  const std::string_view text = string.bytes();
  runtime.touch_bytes(2 * text.size());
  if (separator.missing() || separator.none()) {
    return slices(runtime, string,
                  from_right ? split_at_space_right(runtime, text, limit)
                             : split_at_space(runtime, text, limit));
  }
  const auto* by = separator.string();
  if (by == nullptr) runtime.fail("split(): must be str or None, not {}", type_name(separator));
  if (by->text.empty()) runtime.fail("empty separator");
  return slices(runtime, string,
                from_right ? split_at_right(runtime, text, by->bytes(), limit)
                           : split_at(runtime, text, by->bytes(), limit));
}

std::vector<std::pair<std::size_t, std::size_t>> line_ranges(const StringObject& string,
                                                             bool keep_ends) {
  const std::string_view text = string.bytes();
  std::vector<ByteRange> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end_size = line_end_size(text, at);
    if (end_size == 0) {
      at += decode(text, at).size;
      continue;
    }
    lines.emplace_back(begin, keep_ends ? at + end_size : at);
    at += end_size;
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(begin, text.size());
  return lines;
}

Value split_lines(Runtime& runtime, const Value& value, bool keep_ends) {
  const StringObject& string = *value.string();
  runtime.touch_bytes(string.text.size());
  return slices(runtime, string, line_ranges(string, keep_ends));
}

}  // namespace strata::text::jinja
