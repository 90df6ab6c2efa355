// The methods of str.
#include "src/text/jinja_builtins.hpp"
#include "src/text/jinja_format.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_print.hpp"
#include "src/text/jinja_strings.hpp"
#include "src/text/jinja_unicode.hpp"

#include <algorithm>

namespace strata::text::jinja {
namespace {

// A method of a string marked safe escapes the strings it is given.
Value like(Runtime& runtime, const Value& self, Value argument) {
  if (!self.string()->markup || !argument.is(Kind::kString)) return argument;
  return escape_html(runtime, argument);
}

template <Side side>
Value strip_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Value characters = arguments.optional("chars");
  arguments.finish();
  if (!characters.missing() && !characters.none() && !characters.is(Kind::kString)) {
    runtime.fail("{} arg must be None or str", arguments.function());
  }
  return strip(runtime, self, characters, side);
}

template <bool from_right>
Value split_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  const Value separator = arguments.optional("sep");
  const Int limit = arguments.integer("maxsplit", -1);
  arguments.finish();
  return split(runtime, self, separator, limit, from_right);
}

Value splitlines(Runtime& runtime, const Value& self, CallArguments& arguments) {
  const bool keep_ends = arguments.flag("keepends", false);
  arguments.finish();
  return split_lines(runtime, self, keep_ends);
}

Value replace_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Value old = arguments.string("old");
  const Value replacement = like(runtime, self, arguments.string("new"));
  const Int count = arguments.integer("count", -1);
  arguments.finish();
  return replace(runtime, *self.string(), *old.string(), *replacement.string(), count);
}

// The [start, stop) that find, count, startswith and their kin take, in bytes; nullopt when it is
// beyond the string.
std::optional<std::pair<std::size_t, std::size_t>> take_window(Runtime& runtime, const Value& self,
                                                               CallArguments& arguments) {
  const StringObject& string = *self.string();
  const auto length = static_cast<Int>(string.length);
  const auto take = [&](std::string_view name, Int fallback) {
    const Value value = arguments.optional(name);
    if (value.missing() || value.none()) return fallback;
    Int storage = 0;
    const Int* number = as_integer(value, storage);
    if (number == nullptr) runtime.fail("slice indices must be integers or None");
    return *number < 0 ? std::max<Int>(std::max(*number, -length) + length, 0) : *number;
  };
  const Int start = take("start", 0);
  const Int stop = std::min(take("end", length), length);
  arguments.finish();
  if (start > stop) return std::nullopt;
  runtime.touch_bytes(string.ascii() ? 0 : string.text.size());
  return std::pair(string.offset(static_cast<std::size_t>(start)),
                   string.offset(static_cast<std::size_t>(stop)));
}

template <bool at_end>
Value affix_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Value affix = arguments.required("prefix");
  const auto window = take_window(runtime, self, arguments);
  const auto matches = [&](const Value& candidate) {
    const auto* string = candidate.string();
    if (string == nullptr) {
      refuse_undefined(runtime, candidate);
      runtime.fail("{} first arg must be str or a tuple of str, not {}", arguments.function(),
                   type_name(candidate));
    }
    if (!window) return false;
    const std::string_view text =
        self.string()->bytes().substr(window->first, window->second - window->first);
    runtime.touch_bytes(string->text.size());
    return at_end ? text.ends_with(string->bytes()) : text.starts_with(string->bytes());
  };
  const auto* tuple = affix.tuple();
  if (tuple == nullptr) return matches(affix);
  return std::any_of(tuple->items.begin(), tuple->items.end(), matches);
}

// Where the argument is found, as a number of characters, or -1.
template <bool last>
Int search(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Value needle = arguments.string("sub");
  const auto window = take_window(runtime, self, arguments);
  if (!window) return -1;
  const std::string_view text =
      self.string()->bytes().substr(window->first, window->second - window->first);
  const std::size_t found = last ? find_last_text(runtime, text, needle.string()->bytes())
                                 : find_text(runtime, text, needle.string()->bytes(), 0);
  if (found == std::string_view::npos) return -1;
  runtime.touch_bytes(window->first + found);
  return static_cast<Int>(
      count_code_points(self.string()->bytes().substr(0, window->first + found)));
}

template <bool last>
Value find_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  return search<last>(runtime, self, arguments);
}

template <bool last>
Value index_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  const Int found = search<last>(runtime, self, arguments);
  if (found < 0) runtime.fail("substring not found");
  return found;
}

Value count_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Value needle = arguments.string("sub");
  const auto window = take_window(runtime, self, arguments);
  if (!window) return Int{0};
  const std::string_view text =
      self.string()->bytes().substr(window->first, window->second - window->first);
  const std::string_view wanted = needle.string()->bytes();
  runtime.touch_bytes(text.size());
  if (wanted.empty()) return static_cast<Int>(count_code_points(text)) + 1;
  return static_cast<Int>(count_text(runtime, text, wanted));
}

using StringFunction = Value (*)(Runtime&, const StringObject&);
template <StringFunction function>
Value whole_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.finish();
  return function(runtime, *self.string());
}

Value swapcase(Runtime& runtime, const StringObject& string) {
  return map_code_points(runtime, string, [](char32_t code, bool, std::string& out) {
    if (is_upper(code)) {
      append_lower(code, out);
    } else {
      append_upper(code, out);
    }
  });
}

Value join_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const std::vector<Value> items = collect(runtime, arguments.required("iterable"));
  arguments.finish();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is(Kind::kString)) {
      runtime.fail("sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    }
  }
  return join(runtime, *self.string(), items);
}

Value format_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  return format_braces(runtime, self, arguments);
}

template <bool last>
Value partition_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Value separator = arguments.string("sep");
  arguments.finish();
  const StringObject& string = *self.string();
  const std::string_view by = separator.string()->bytes();
  if (by.empty()) runtime.fail("empty separator");
  const std::size_t found = last ? find_last_text(runtime, string.bytes(), by)
                                 : find_text(runtime, string.bytes(), by, 0);
  const auto part = [&](std::size_t begin, std::size_t end) {
    return runtime.text(string.text.slice(begin, end), string.markup);
  };
  if (found == std::string_view::npos) {
    const Value nothing = runtime.text(Text(), string.markup);
    if (last) return runtime.tuple({nothing, nothing, self});
    return runtime.tuple({self, nothing, nothing});
  }
  return runtime.tuple({part(0, found), part(found, found + by.size()),
                        part(found + by.size(), string.text.size())});
}

template <bool suffix>
Value remove_affix_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Value affix = arguments.string("prefix");
  arguments.finish();
  const StringObject& string = *self.string();
  const std::string_view wanted = affix.string()->bytes();
  const bool present =
      suffix ? string.bytes().ends_with(wanted) : string.bytes().starts_with(wanted);
  if (!present) return self;
  const std::size_t begin = suffix ? 0 : wanted.size();
  const std::size_t end = string.text.size() - (suffix ? wanted.size() : 0);
  return runtime.text(string.text.slice(begin, end), string.markup);
}

template <Alignment alignment>
Value justify_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Int width = arguments.integer("width");
  const Value fill = arguments.optional("fillchar");
  arguments.finish();
  if (fill.missing()) return pad(runtime, *self.string(), width, Text(" ", true), alignment);
  if (fill.string() == nullptr || fill.string()->length != 1) {
    runtime.fail("The fill character must be exactly one character long");
  }
  return pad(runtime, *self.string(), width, fill.string()->text, alignment);
}

Value zfill(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Int width = arguments.integer("width");
  arguments.finish();
  const StringObject& string = *self.string();
  const bool sign = string.bytes().starts_with('-') || string.bytes().starts_with('+');
  const auto length = static_cast<Int>(string.length);
  runtime.check_text_size(static_cast<std::size_t>(std::clamp<Int>(width, 0, Int{1} << 62)));
  TextBuilder out(runtime);
  out.append(string.text, 0, sign ? 1 : 0);
  if (width > length) out.repeat('0', static_cast<std::size_t>(width - length), true);
  out.append(string.text, sign ? 1 : 0, string.text.size());
  return out.value(string.markup);
}

// True when there is a character and all satisfy the condition.
template <bool (*condition)(char32_t)>
Value all_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.finish();
  const std::string_view text = self.string()->bytes();
  runtime.step(self.string()->ascii() ? text.size() / 16 : self.string()->length);
  for (std::size_t at = 0; at < text.size(); at += decode(text, at).size) {
    if (!condition(decode(text, at).code)) return false;
  }
  return !text.empty();
}

// True when there is a cased character and all cased ones are upper (lower) case.
template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
Value case_method(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.finish();
  return has_case(runtime, *self.string(), wanted, other);
}

Value isascii(Runtime& /*runtime*/, const Value& self, CallArguments& arguments) {
  arguments.finish();
  return self.string()->ascii();
}

Value isprintable(Runtime& runtime, const Value& self, CallArguments& arguments) {
  if (self.string()->text.empty()) return true;
  return all_method<is_printable>(runtime, self, arguments);
}

Value unsupported_method(Runtime& runtime, const Value& /*self*/, CallArguments& arguments) {
  runtime.fail("the str method '{}' is not supported", arguments.function());
}

constexpr Method kStringMethods[] = {
    {"capitalize", whole_method<capitalize>},
    {"casefold", unsupported_method},
    {"center", justify_method<Alignment::kCentre>},
    {"count", count_method},
    {"encode", unsupported_method},
    {"endswith", affix_method<true>},
    {"expandtabs", unsupported_method},
    {"find", find_method<false>},
    {"format", format_method},
    {"format_map", unsupported_method},
    {"index", index_method<false>},
    {"isalnum", all_method<is_alnum>},
    {"isalpha", all_method<is_alpha>},
    {"isascii", isascii},
    {"isdecimal", all_method<is_decimal>},
    {"isdigit", all_method<is_decimal>},
    {"isidentifier", unsupported_method},
    {"islower", case_method<is_lower, is_upper>},
    {"isnumeric", all_method<is_decimal>},
    {"isprintable", isprintable},
    {"isspace", all_method<is_space>},
    {"istitle", unsupported_method},
    {"isupper", case_method<is_upper, is_lower>},
    {"join", join_method},
    {"ljust", justify_method<Alignment::kLeft>},
    {"lower", whole_method<lower>},
    {"lstrip", strip_method<Side::kLeft>},
    {"maketrans", unsupported_method},
    {"partition", partition_method<false>},
    {"removeprefix", remove_affix_method<false>},
    {"removesuffix", remove_affix_method<true>},
    {"replace", replace_method},
    {"rfind", find_method<true>},
    {"rindex", index_method<true>},
    {"rjust", justify_method<Alignment::kRight>},
    {"rpartition", partition_method<true>},
    {"rsplit", split_method<true>},
    {"rstrip", strip_method<Side::kRight>},
    {"split", split_method<false>},
    {"splitlines", splitlines},
    {"startswith", affix_method<false>},
    {"strip", strip_method<Side::kBoth>},
    {"swapcase", whole_method<swapcase>},
    {"title", whole_method<title>},
    {"translate", unsupported_method},
    {"upper", whole_method<upper>},
    {"zfill", zfill},
};

}  // namespace

std::span<const Method> string_methods() { return kStringMethods; }

}  // namespace strata::text::jinja
