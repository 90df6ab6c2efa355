#include "src/text/jinja_format.hpp"
#include "src/text/jinja_numbers.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_print.hpp"
#include "src/text/jinja_strings.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace strata::text::jinja {
namespace {

// Reads a format string's literal text and fields.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const StringObject& format, CallArguments& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments) {}

  Value run() {
    TextBuilder out(runtime_);
    write(out, 0, format_.text.size(), 0);
    return out.value(format_.markup);
  }

 private:
  void write(TextBuilder& out, std::size_t at, std::size_t end, int depth) {
    if (depth > 1) runtime_.fail("Max string recursion exceeded");
    const std::string_view text = format_.bytes();
    while (at < end) {
      const std::size_t brace = std::min(text.find_first_of("{}", at), end);
      out.append(format_.text, at, brace);
      at = brace;
      if (at >= end) break;
      runtime_.step();
      if (at + 1 < end && text[at + 1] == text[at] && depth == 0) {
        out.append(format_.text, at, at + 1);
        at += 2;
        continue;
      }
      if (text[at] == '}') runtime_.fail("Single '}}' encountered in format string");
      const std::size_t close = find_close(at + 1, end);
      write_field(out, at + 1, close, depth);
      at = close + 1;
    }
  }

  // The "}" that ends the field which starts at `at`.
  [[nodiscard]] std::size_t find_close(std::size_t at, std::size_t end) const {
    const std::string_view text = format_.bytes();
    for (int open = 1; at < end; ++at) {
      if (text[at] == '[') {  // braces in an index count for nothing
        const std::size_t bracket = text.find(']', at);
        if (bracket < end) at = bracket;
        continue;
      }
      open += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
      if (open == 0) return at;
    }
    runtime_.fail("expected '}}' before end of string");
  }

  void write_field(TextBuilder& out, std::size_t at, std::size_t end, int depth) {
    const std::string_view text = format_.bytes().substr(0, end);
    std::size_t name_end = at;
    while (name_end < end && text[name_end] != '!' && text[name_end] != ':') {
      if (text[name_end] == '[') name_end = std::min(text.find(']', name_end), end - 1);
      ++name_end;
    }
    Value value = field(text.substr(at, name_end - at));
    if (name_end < end && text[name_end] == '!') {
      if (name_end + 1 >= end)
        runtime_.fail("end of string while looking for conversion specifier");
      const char conversion = text[name_end + 1];
      if (conversion == 'r' || conversion == 'a') {
        value = to_repr(runtime_, value, conversion == 'a');
      } else if (conversion == 's') {
        value = to_str(runtime_, value);
      } else {
        runtime_.fail("Unknown conversion specifier '{}'", conversion);
      }
      name_end += 2;
      if (name_end < end && text[name_end] != ':') {
        runtime_.fail("expected ':' after conversion specifier");
      }
    }
    TextBuilder spec(runtime_);
    if (name_end < end) write(spec, name_end + 1, end, depth + 1);
    const Text spec_text = spec.take();
    if (format_.markup) value = escape_html(runtime_, to_str(runtime_, value));
    append_formatted(runtime_, out, value, spec_text.bytes());
  }

  // The value of a field's name: an argument, then any of .attribute and [index].
  Value field(std::string_view name) {
    const std::size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, first_end));
    name.remove_prefix(first_end);
    while (!name.empty()) {
      const bool attribute = name[0] == '.';
      if (!attribute && name[0] != '[') {
        runtime_.fail("Only '.' or '[' may follow ']' in format field specifier");
      }
      const std::size_t end =
          attribute ? std::min(name.find_first_of(".[", 1), name.size()) : name.find(']');
      if (end == std::string_view::npos) runtime_.fail("Missing ']' in format string");
      const std::string_view part = name.substr(1, end - 1);
      if (part.empty()) runtime_.fail("Empty attribute in format string");
      Int index = 0;
      if (attribute) {
        value = get_attribute(runtime_, value, part);
      } else if (is_index(part) && parse_integer(part, 10, index) == IntegerSyntax::kValid) {
        value = get_item(runtime_, value, Value(index));
      } else {
        value = get_item(runtime_, value, runtime_.text(std::string(part), true));
      }
      name.remove_prefix(attribute ? end : end + 1);
    }
    return value;
  }

  static bool is_index(std::string_view text) {
    return text.find_first_not_of("0123456789") == std::string_view::npos;
  }

  Value argument(std::string_view name) {
    const bool numbered = !name.empty() && is_index(name);
    if (numbered || name.empty()) {
      const bool automatic = name.empty();
      if (next_ && *next_ < 0 && automatic) {
        runtime_.fail("cannot switch from manual field specification to automatic field numbering");
      }
      if (next_ && *next_ >= 0 && !automatic) {
        runtime_.fail("cannot switch from automatic field numbering to manual field specification");
      }
      Int index = 0;
      if (automatic) {
        index = next_.value_or(0);
        next_ = index + 1;
      } else {
        next_ = -1;
        if (parse_integer(name, 10, index) != IntegerSyntax::kValid) index = -1;
      }
      if (index < 0 || index >= static_cast<Int>(arguments_.positional.size())) {
        runtime_.fail("Replacement index {} out of range for positional args tuple",
                      integer_text(index));
      }
      return arguments_.positional[static_cast<std::size_t>(index)];
    }
    for (const auto& [key, value] : arguments_.keywords) {
      if (key == name) return value;
    }
    runtime_.fail("KeyError: {}", short_repr(name));
  }

  Runtime& runtime_;
  const StringObject& format_;
  CallArguments& arguments_;
  std::optional<Int>
      next_;  // the next automatic number; negative once a field had a number of its own
};

}  // namespace

Value format_braces(Runtime& runtime, const Value& format, CallArguments& arguments) {
  return BraceFormatter(runtime, *format.string(), arguments).run();
}

}  // namespace strata::text::jinja
