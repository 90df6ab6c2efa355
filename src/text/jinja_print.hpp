// Values as text: Python's str() and repr(), and JSON.
#pragma once

#include "src/text/jinja_runtime.hpp"
#include "src/text/jinja_value.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace strata::text::jinja {

// str(value), appended. A string keeps its provenance. The text of a number, a bool or None is
// trusted: it cannot spell anything but itself. That of a container is trusted only if every string
// in it is.
void append_str(Runtime& runtime, TextBuilder& out, const Value& value);
// str(value) as a value; a string is returned as it is.
[[nodiscard]] Value to_str(Runtime& runtime, const Value& value);
// repr(value), or ascii(value), which writes every character beyond ASCII as an escape.
[[nodiscard]] Value to_repr(Runtime& runtime, const Value& value, bool ascii_only = false);

// At most the first 80 bytes of repr(text), for messages.
[[nodiscard]] std::string short_repr(std::string_view text);

struct JsonStyle {
  bool ascii_only = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level; also puts every item on a line of its own
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool trusted = true;  // of indent and separators
};
// json.dumps(value). Fails on what JSON cannot hold. Trusted only if every string in the value is.
[[nodiscard]] Value to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace strata::text::jinja
