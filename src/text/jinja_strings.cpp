#include "src/text/jinja_strings.hpp"

#include "src/text/jinja_print.hpp"
#include "src/text/jinja_unicode.hpp"

#include <algorithm>

namespace strata::text::jinja {

Value map_code_points(Runtime& runtime, const StringObject& string, CodePointMap map) {
  runtime.step(string.length / 8);
  TextBuilder out(runtime);
  bool first = true;
  std::string mapped;
  string.text.for_each_run(0, string.text.size(), [&](std::string_view run, bool trusted) {
    mapped.clear();
    for (std::size_t at = 0; at < run.size();) {
      const Decoded c = decode(run, at);
      map(c.code, first, mapped);
      first = false;
      at += c.size;
    }
    out.append(mapped, trusted);
  });
  return out.value(string.markup);
}

Value upper(Runtime& runtime, const StringObject& string) {
  return map_code_points(runtime, string,
                         [](char32_t code, bool, std::string& out) { append_upper(code, out); });
}

Value lower(Runtime& runtime, const StringObject& string) {
  return map_code_points(runtime, string,
                         [](char32_t code, bool, std::string& out) { append_lower(code, out); });
}

Value capitalize(Runtime& runtime, const StringObject& string) {
  return map_code_points(runtime, string, [](char32_t code, bool first, std::string& out) {
    if (first) {
      append_upper(code, out);
    } else {
      append_lower(code, out);
    }
  });
}

Value title(Runtime& runtime, const StringObject& string) {
  runtime.step(string.length / 8);
  TextBuilder out(runtime);
  bool after_letter = false;
  string.text.for_each_run(0, string.text.size(), [&](std::string_view run, bool trusted) {
    std::string mapped;
    for (std::size_t at = 0; at < run.size();) {
      const Decoded c = decode(run, at);
      if (after_letter) {
        append_lower(c.code, mapped);
      } else {
        append_upper(c.code, mapped);
      }
      after_letter = is_upper(c.code) || is_lower(c.code);
      at += c.size;
    }
    out.append(mapped, trusted);
  });
  return out.value(string.markup);
}

bool has_case(Runtime& runtime, const StringObject& string, bool (*wanted)(char32_t),
              bool (*other)(char32_t)) {
  runtime.step(string.length / 8);
  bool found = false;
  for (std::size_t at = 0; at < string.text.size();) {
    const Decoded c = decode(string.bytes(), at);
    if (other(c.code)) return false;
    found = found || wanted(c.code);
    at += c.size;
  }
  return found;
}

Value escape_html(Runtime& runtime, const Value& value) {
  const StringObject& string = *value.string();
  if (string.markup) return value;
  TextBuilder out(runtime);
  string.text.for_each_run(0, string.text.size(), [&](std::string_view run, bool trusted) {
    std::string escaped;
    for (const char c : run) {
      switch (c) {
        case '&':
          escaped += "&amp;";
          break;
        case '<':
          escaped += "&lt;";
          break;
        case '>':
          escaped += "&gt;";
          break;
        case '\'':
          escaped += "&#39;";
          break;
        case '"':
          escaped += "&#34;";
          break;
        default:
          escaped += c;
      }
    }
    out.append(escaped, trusted);
  });
  return out.value(true);
}

Value add_strings(Runtime& runtime, const Value& left, const Value& right) {
  const bool markup = left.string()->markup || right.string()->markup;
  const Value first = markup ? escape_html(runtime, left) : left;
  const Value second = markup ? escape_html(runtime, right) : right;
  TextBuilder out(runtime);
  out.append(first.string()->text);
  out.append(second.string()->text);
  return out.value(markup);
}

Value join(Runtime& runtime, const StringObject& separator, const std::vector<Value>& strings) {
  TextBuilder out(runtime);
  bool first = true;
  for (const Value& item : strings) {
    runtime.step();
    if (!first) out.append(separator.text);
    first = false;
    append_str(runtime, out, separator.markup ? escape_html(runtime, to_str(runtime, item)) : item);
  }
  return out.value(separator.markup);
}

Value pad(Runtime& runtime, const StringObject& string, Int width, const Text& fill,
          Alignment alignment) {
  const auto bound = static_cast<Int>(runtime.limits().max_string_bytes);
  if (width > bound)
    runtime.fail("a width of more than {} characters", runtime.limits().max_string_bytes);
  const auto length = static_cast<Int>(string.length);
  const Int missing = std::max<Int>(width - length, 0);
  // CPython puts the odd character left when the width is odd too.
  const Int left = alignment == Alignment::kLeft    ? 0
                   : alignment == Alignment::kRight ? missing
                                                    : missing / 2 + (missing & width & 1);
  TextBuilder out(runtime);
  const auto fill_in = [&](Int count) {
    runtime.step(static_cast<std::size_t>(count));
    for (Int i = 0; i < count; ++i) out.append(fill);
  };
  fill_in(left);
  out.append(string.text);
  fill_in(missing - left);
  return out.value(string.markup);
}

}  // namespace strata::text::jinja
