// Filters that make text.
#include "src/text/jinja_builtins.hpp"
#include "src/text/jinja_format.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_print.hpp"
#include "src/text/jinja_strings.hpp"
#include "src/text/jinja_unicode.hpp"

#include <algorithm>

namespace strata::text::jinja {
namespace {

using StringFunction = Value (*)(Runtime&, const StringObject&);

// A filter without arguments on the text of any value.
template <StringFunction function>
Value text_filter(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  const Value text = to_str(runtime, input);
  return function(runtime, *text.string());
}

// jinja2's own title: words start after whitespace and the characters -({[<.
Value word_title(Runtime& runtime, const StringObject& string) {
  runtime.step(string.length / 8);
  TextBuilder out(runtime);
  bool word_starts = true;
  string.text.for_each_run(0, string.text.size(), [&](std::string_view run, bool trusted) {
    std::string mapped;
    for (std::size_t at = 0; at < run.size();) {
      const Decoded c = decode(run, at);
      if (word_starts) {
        append_upper(c.code, mapped);
      } else {
        append_lower(c.code, mapped);
      }
      word_starts =
          is_space(c.code) || std::string_view("-({[<").find(run[at]) != std::string_view::npos;
      at += c.size;
    }
    out.append(mapped, trusted);
  });
  return out.value(string.markup);
}

Value trim(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Value characters = arguments.optional("chars");
  arguments.finish();
  if (!characters.missing() && !characters.none() && !characters.is(Kind::kString)) {
    runtime.fail("strip arg must be None or str");
  }
  return strip(runtime, to_str(runtime, input), characters, Side::kBoth);
}

Value replace_filter(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Value old = to_str(runtime, arguments.required("old"));
  const Value replacement = to_str(runtime, arguments.required("new"));
  const Value count = arguments.optional("count");
  arguments.finish();
  Int limit = -1;
  if (!count.missing() && !count.none()) {
    Int storage = 0;
    const Int* number = as_integer(count, storage);
    if (number == nullptr) runtime.fail("replace(): count must be an integer");
    limit = *number;
  }
  // With escaping off jinja2 works on plain strings here.
  const Value text = to_str(runtime, input);
  const Value replaced =
      replace(runtime, *text.string(), *old.string(), *replacement.string(), limit);
  return text.string()->markup ? runtime.text(replaced.string()->text) : replaced;
}

Value string(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return to_str(runtime, input);
}

Value safe(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return runtime.text(to_str(runtime, input).string()->text, true);
}

Value escape(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return escape_html(runtime, to_str(runtime, input));
}

Value force_escape(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  const Value text = to_str(runtime, input);
  return escape_html(runtime, runtime.text(text.string()->text));
}

Value format_filter(Runtime& runtime, const Value& input, CallArguments& arguments) {
  if (!arguments.positional.empty() && !arguments.keywords.empty()) {
    runtime.fail("can't handle positional and keyword arguments at the same time");
  }
  const Value text = to_str(runtime, input);
  if (arguments.keywords.empty()) {
    return format_percent(runtime, text, runtime.tuple(arguments.take_rest()));
  }
  DictObject dict;
  for (auto& [name, value] : arguments.keywords) dict.insert(runtime.text(name, true), value);
  return format_percent(runtime, text, runtime.dict(std::move(dict)));
}

Value center(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Int width = arguments.integer("width", 80);
  arguments.finish();
  const Value text = to_str(runtime, input);
  return pad(runtime, *text.string(), width, Text(" ", true), Alignment::kCentre);
}

// The string an argument must be, for filters that take no other values.
const StringObject& require_string(Runtime& runtime, const Value& value, std::string_view filter) {
  if (const auto* string = value.string()) return *string;
  refuse_undefined(runtime, value);
  runtime.fail("the filter '{}' needs a str, not {}", filter, type_name(value));
}

Value indent(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Value width = arguments.optional("width", Value(Int{4}));
  const bool first = arguments.flag("first", false);
  const bool blank = arguments.flag("blank", false);
  arguments.finish();
  const StringObject& string = require_string(runtime, input, "indent");
  runtime.touch_bytes(string.text.size());
  Text margin;
  if (const auto* text = width.string()) {
    margin = text->text;
  } else {
    Int storage = 0;
    const Int* number = as_integer(width, storage);
    if (number == nullptr) runtime.fail("indent(): width must be an integer or a str");
    const auto count = static_cast<std::size_t>(std::clamp<Int>(*number, 0, Int{1} << 40));
    runtime.check_text_size(count);
    margin.append(std::string(count, ' '), true);
  }
  TextBuilder out(runtime);
  if (first) out.append(margin);
  auto lines = line_ranges(string, false);
  // jinja2 splits the string with a newline added, so the text after the last line end is a line,
  // even an empty one.
  const std::size_t covered = lines.empty() ? 0 : lines.back().second;
  if (lines.empty() || covered < string.text.size()) {
    lines.emplace_back(string.text.size(), string.text.size());
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    runtime.step();
    const auto [begin, end] = lines[i];
    if (i > 0) out.append("\n", true);
    if (i > 0 && (blank || end > begin)) out.append(margin);
    out.append(string.text, begin, end);
  }
  return out.value(string.markup);
}

Value truncate_filter(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Int length = arguments.integer("length", 255);
  const bool kill_words = arguments.flag("killwords", false);
  const Value end = arguments.optional("end", runtime.text("...", true));
  const Value leeway_given = arguments.optional("leeway");
  arguments.finish();
  const StringObject& tail = require_string(runtime, end, "truncate");
  Int leeway = 5;
  if (!leeway_given.missing() && !leeway_given.none()) {
    Int storage = 0;
    const Int* number = as_integer(leeway_given, storage);
    if (number == nullptr) runtime.fail("truncate(): leeway must be an integer");
    leeway = *number;
  }
  const auto tail_length = static_cast<Int>(tail.length);
  if (length < tail_length) {
    runtime.fail("expected length >= {}, got {}", tail.length, static_cast<std::int64_t>(length));
  }
  if (leeway < 0) runtime.fail("expected leeway >= 0");
  // Whatever is short enough is let through, be it a string or not.
  const auto size = length_of(input);
  if (size && static_cast<Int>(*size) - leeway <= length) return input;
  const StringObject& string = require_string(runtime, input, "truncate");
  std::size_t cut = string.offset(static_cast<std::size_t>(length - tail_length));
  if (!kill_words) {
    const std::size_t space =
        cut == 0 ? std::string_view::npos : string.bytes().rfind(' ', cut - 1);
    if (space != std::string_view::npos) cut = space;
  }
  TextBuilder out(runtime);
  out.append(string.text, 0, cut);
  out.append(tail.text);
  return out.value(string.markup);
}

Value word_count(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  const Value value = to_str(runtime, input);
  const std::string_view text = value.string()->bytes();
  runtime.step(value.string()->length);
  Int count = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const Decoded c = decode(text, at);
    const bool word = c.code == '_' || is_alnum(c.code);
    if (word && !in_word) ++count;
    in_word = word;
    at += c.size;
  }
  return count;
}

Value join_filter(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Value separator = to_str(runtime, arguments.optional("d", runtime.text("", true)));
  const Value attribute = arguments.optional("attribute");
  arguments.finish();
  std::vector<Value> items = collect(runtime, input);
  if (!attribute.missing() && !attribute.none()) {
    const AttributePath path(runtime, attribute);
    for (Value& item : items) item = path.follow(runtime, item);
  }
  Text plain = separator.string()->text;
  const Value by = runtime.text(std::move(plain));
  return join(runtime, *by.string(), items);
}

// The text of indent or separators for tojson.
std::string json_part(Runtime& runtime, const Value& value, JsonStyle& style) {
  const StringObject& string = require_string(runtime, value, "tojson");
  style.trusted = style.trusted && string.text.fully_trusted();
  return std::string(string.bytes());
}

Value tojson(Runtime& runtime, const Value& input, CallArguments& arguments) {
  JsonStyle style;
  style.ascii_only = arguments.flag("ensure_ascii", false);
  const Value indent = arguments.optional("indent");
  const Value separators = arguments.optional("separators");
  style.sort_keys = arguments.flag("sort_keys", false);
  arguments.finish();
  Int storage = 0;
  if (const Int* width = as_integer(indent, storage)) {
    constexpr Int kMaxIndent = 1000;
    if (*width > kMaxIndent) runtime.fail("tojson(): an indent of more than 1000");
    style.indent = std::string(static_cast<std::size_t>(std::max<Int>(*width, 0)), ' ');
  } else if (!indent.missing() && !indent.none()) {
    style.indent = json_part(runtime, indent, style);
  }
  if (style.indent) style.item_separator = ",";
  if (!separators.missing() && !separators.none()) {
    const std::vector<Value> pair = collect(runtime, separators);
    if (pair.size() != 2) runtime.fail("tojson(): separators must be two strings");
    style.item_separator = json_part(runtime, pair[0], style);
    style.key_separator = json_part(runtime, pair[1], style);
  }
  return to_json(runtime, input, style);
}

constexpr Filter kStringFilters[] = {
    {"capitalize", text_filter<capitalize>},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"format", format_filter},
    {"indent", indent},
    {"join", join_filter},
    {"lower", text_filter<lower>},
    {"replace", replace_filter},
    {"safe", safe},
    {"string", string},
    {"title", text_filter<word_title>},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate_filter},
    {"upper", text_filter<upper>},
    {"wordcount", word_count},
};

}  // namespace

std::span<const Filter> string_filters() { return kStringFilters; }

}  // namespace strata::text::jinja
