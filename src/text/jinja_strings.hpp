// String operations that keep the provenance of every byte. All positions are in bytes unless said
// otherwise.
#pragma once

#include "src/text/jinja_callable.hpp"
#include "src/text/jinja_runtime.hpp"
#include "src/text/jinja_value.hpp"

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::text::jinja {

// Where `needle` starts in `text` at or after `from`, or npos. Takes time linear in the text,
// whatever the needle.
[[nodiscard]] std::size_t find_text(Runtime& runtime, std::string_view text,
                                    std::string_view needle, std::size_t from);
// The last place at which `needle` starts, or npos.
[[nodiscard]] std::size_t find_last_text(Runtime& runtime, std::string_view text,
                                         std::string_view needle);

// How often `needle`, which is not empty, occurs without overlap.
[[nodiscard]] std::size_t count_text(Runtime& runtime, std::string_view text,
                                     std::string_view needle);

enum class Side : std::uint8_t { kBoth, kLeft, kRight };
// str.strip and kin; `characters` is a string, or missing or None for whitespace.
[[nodiscard]] Value strip(Runtime& runtime, const Value& value, const Value& characters, Side side);

// str.replace; `count` < 0 replaces all.
[[nodiscard]] Value replace(Runtime& runtime, const StringObject& string, const StringObject& old,
                            const StringObject& replacement, Int count);

// str.split and str.rsplit; `limit` < 0 is none. A missing or None separator splits at whitespace.
[[nodiscard]] Value split(Runtime& runtime, const Value& value, const Value& separator, Int limit,
                          bool from_right);
[[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> line_ranges(
    const StringObject& string, bool keep_ends);
[[nodiscard]] Value split_lines(Runtime& runtime, const Value& value, bool keep_ends);

// A copy in which `map(code, first, out)` appends what stands for a code point; `first` says
// whether it is the first.
using CodePointMap = void (*)(char32_t code, bool first, std::string& out);
[[nodiscard]] Value map_code_points(Runtime& runtime, const StringObject& string, CodePointMap map);
[[nodiscard]] Value upper(Runtime& runtime, const StringObject& string);
[[nodiscard]] Value lower(Runtime& runtime, const StringObject& string);
[[nodiscard]] Value capitalize(Runtime& runtime, const StringObject& string);
[[nodiscard]] Value title(Runtime& runtime, const StringObject& string);  // str.title

// str.isupper and str.islower: whether there is a character of the wanted case and none of the
// other.
[[nodiscard]] bool has_case(Runtime& runtime, const StringObject& string, bool (*wanted)(char32_t),
                            bool (*other)(char32_t));

// left + right, and separator.join(items). A string marked safe escapes the others.
[[nodiscard]] Value add_strings(Runtime& runtime, const Value& left, const Value& right);
[[nodiscard]] Value join(Runtime& runtime, const StringObject& separator,
                         const std::vector<Value>& strings);

// The string with & < > ' " as HTML entities, marked safe. One that is marked safe is returned as
// it is.
[[nodiscard]] Value escape_html(Runtime& runtime, const Value& value);

// The string padded to `width` code points with `fill`, one code point.
enum class Alignment : std::uint8_t { kLeft, kRight, kCentre };
[[nodiscard]] Value pad(Runtime& runtime, const StringObject& string, Int width, const Text& fill,
                        Alignment alignment);

}  // namespace strata::text::jinja
