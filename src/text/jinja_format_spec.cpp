// The format specifications of str.format, such as ">8.2f".
#include "src/text/jinja_format.hpp"
#include "src/text/jinja_numbers.hpp"
#include "src/text/jinja_print.hpp"
#include "src/text/jinja_unicode.hpp"
#include "strata/text/unicode.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

namespace strata::text::jinja {
namespace {

constexpr std::size_t kMaxSpecPrecision = 1000;
constexpr std::size_t kMaxWidth = 10'000;

// [[fill]align][sign][z][#][0][width][grouping][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ = or 0 when not given
  char sign = '-';
  bool alternate = false;
  std::size_t width = 0;
  char grouping = 0;  // , or _ or 0
  std::optional<std::size_t> precision;
  char type = 0;
};

class SpecParser {
 public:
  SpecParser(Runtime& runtime, std::string_view text) : runtime_(runtime), text_(text) {}

  Spec parse() {
    Spec spec;
    parse_alignment(spec);
    if (ahead("+- ")) spec.sign = take();
    if (ahead("#")) {
      take();
      spec.alternate = true;
    }
    if (ahead("0")) {
      take();
      if (spec.align == 0) {
        spec.fill = "0";
        spec.align = '=';
      }
    }
    spec.width = number().value_or(0);
    if (spec.width > kMaxWidth) runtime_.fail("a field is wider than {}", kMaxWidth);
    if (ahead(",_")) spec.grouping = take();
    if (ahead(".")) {
      take();
      spec.precision = number();
      if (!spec.precision) runtime_.fail("Format specifier missing precision");
    }
    if (at_ < text_.size()) spec.type = take();
    if (at_ < text_.size()) runtime_.fail("Invalid format specifier");
    return spec;
  }

 private:
  static constexpr std::string_view kAlignments = "<>^=";

  void parse_alignment(Spec& spec) {
    if (text_.empty()) return;
    const std::size_t first = decode(text_, 0).size;
    if (first < text_.size() && kAlignments.find(text_[first]) != std::string_view::npos) {
      spec.fill = text_.substr(0, first);
      spec.align = text_[first];
      at_ = first + 1;
    } else if (ahead(kAlignments)) {
      spec.align = take();
    }
  }
  [[nodiscard]] bool ahead(std::string_view any_of) const {
    return at_ < text_.size() && any_of.find(text_[at_]) != std::string_view::npos;
  }
  char take() { return text_[at_++]; }
  std::optional<std::size_t> number() {
    std::optional<std::size_t> value;
    while (ahead("0123456789")) {
      value = value.value_or(0) * 10 + static_cast<std::size_t>(take() - '0');
      if (*value > 0x7FFFFFFF) runtime_.fail("Too many decimal digits in format string");
    }
    return value;
  }

  Runtime& runtime_;
  std::string_view text_;
  std::size_t at_ = 0;
};

// Digits with a separator after every `size` from the right.
std::string grouped(const std::string& digits, char separator, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

// A number in parts: the whole part may be grouped and filled.
struct NumberText {
  bool negative = false;
  std::string prefix;
  std::string whole;
  std::string rest;
};

void append_number(Runtime& runtime, TextBuilder& out, const Spec& spec, NumberText number,
                   std::size_t group_size) {
  runtime.step(spec.width / 8);
  std::string sign = number.negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  sign += number.prefix;
  const std::size_t fixed = sign.size() + number.rest.size();
  if (spec.grouping != 0) {
    // Zero fill is grouped along with the digits.
    std::size_t digits = number.whole.size();
    if (spec.align == '=' && spec.fill == "0") {
      while (fixed + digits + (digits - 1) / group_size < spec.width) ++digits;
    }
    number.whole.insert(0, digits - number.whole.size(), '0');
    number.whole = grouped(number.whole, spec.grouping, group_size);
  }
  const std::size_t size = fixed + number.whole.size();
  const std::size_t padding = spec.width > size ? spec.width - size : 0;
  const auto fill = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) out.append(spec.fill, true);
  };
  const char align = spec.align == 0 ? '>' : spec.align;
  if (align == '>') fill(padding);
  if (align == '^') fill(padding / 2);
  out.append(sign, true);
  if (align == '=') fill(padding);
  out.append(number.whole + number.rest, true);
  if (align == '<') fill(padding);
  if (align == '^') fill(padding - padding / 2);
}

void to_upper_ascii(std::string& text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
}

void append_string(Runtime& runtime, TextBuilder& out, const Spec& spec, const Value& value) {
  if (spec.type != 0 && spec.type != 's') {
    runtime.fail("Unknown format code '{}' for object of type 'str'", spec.type);
  }
  if (spec.align == '=' || spec.sign != '-' || spec.alternate || spec.grouping != 0) {
    runtime.fail("a string's format takes no sign, '=', '#' or grouping");
  }
  const StringObject& string = *value.string();
  const std::size_t length = std::min(string.length, spec.precision.value_or(string.length));
  const std::size_t padding = spec.width > length ? spec.width - length : 0;
  runtime.step(padding / 8);
  const std::size_t before = spec.align == '>' ? padding : spec.align == '^' ? padding / 2 : 0;
  for (std::size_t i = 0; i < before; ++i) out.append(spec.fill, true);
  out.append(string.text, 0, string.offset(length));
  for (std::size_t i = before; i < padding; ++i) out.append(spec.fill, true);
}

void append_integer(Runtime& runtime, TextBuilder& out, const Spec& spec, Int value) {
  if (spec.precision) runtime.fail("Precision not allowed in integer format specifier");
  if (spec.type == 'c') {
    if (value < 0 || value > 0x10FFFF || !is_code_point(static_cast<std::uint32_t>(value))) {
      runtime.fail("%c arg not in range(0x110000)");
    }
    std::string text;
    append_utf8(text, static_cast<char32_t>(value));
    Spec plain = spec;
    plain.type = 0;
    return append_string(runtime, out, plain, runtime.text(std::move(text), false));
  }
  const int base = spec.type == 'b'            ? 2
                   : spec.type == 'o'          ? 8
                   : (spec.type | 0x20) == 'x' ? 16
                                               : 10;
  NumberText number;
  number.negative = value < 0;
  number.whole = integer_text(value, base);
  if (number.negative) number.whole.erase(0, 1);
  if (spec.alternate && base != 10) number.prefix = base == 2 ? "0b" : base == 8 ? "0o" : "0x";
  if (spec.type == 'X') {
    to_upper_ascii(number.whole);
    to_upper_ascii(number.prefix);
  }
  append_number(runtime, out, spec, std::move(number), base == 10 ? 3 : 4);
}

// The digits of a float's absolute value as `spec` wants them.
std::string float_digits(Runtime& runtime, const Spec& spec, double value) {
  const std::size_t precision = spec.precision.value_or(6);
  if (precision > kMaxSpecPrecision) runtime.fail("precision too big");
  runtime.step(precision / 4);
  if (spec.type == '%') {
    return float_text(value * 100, 'f', static_cast<int>(precision), spec.alternate) + "%";
  }
  if (spec.type == 0 && !spec.precision) return float_text(value);
  if (spec.type == 0) {
    // Like g, but with a digit after the point at least, and so an exponent one digit earlier.
    const int digits = std::max(1, static_cast<int>(precision));
    std::string text = float_text(value, 'g', digits, false);
    if (text.find_first_of(".en") != std::string::npos) return text;  // also inf and nan
    if (static_cast<int>(text.size()) < digits) return text + ".0";
    text = float_text(value, 'e', digits - 1, false);
    const std::size_t mark = text.find('e');
    const std::size_t last = text.find_last_not_of('0', mark - 1);
    if (text.find('.') < mark)
      text.erase(text[last] == '.' ? last : last + 1, mark - last - (text[last] == '.' ? 0 : 1));
    return text;
  }
  const char type = spec.type == 'n' ? 'g' : spec.type;
  return float_text(value, type, static_cast<int>(precision), spec.alternate);
}

void append_float(Runtime& runtime, TextBuilder& out, const Spec& spec, double value) {
  const std::string digits = float_digits(runtime, spec, std::abs(value));
  NumberText number;
  number.negative = std::signbit(value) && !std::isnan(value);
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  number.whole = digits.substr(0, whole);
  number.rest = digits.substr(whole);
  append_number(runtime, out, spec, std::move(number), 3);
}

}  // namespace

void append_formatted(Runtime& runtime, TextBuilder& out, const Value& value,
                      std::string_view spec_text) {
  if (spec_text.empty()) return append_str(runtime, out, value);
  const Spec spec = SpecParser(runtime, spec_text).parse();
  if (value.is(Kind::kString)) return append_string(runtime, out, spec, value);
  if (!value.number()) {
    runtime.fail("unsupported format string passed to {}.__format__", type_name(value));
  }
  if (spec.type != 0 &&
      std::string_view("bcdoxXneEfFgG%").find(spec.type) == std::string_view::npos) {
    runtime.fail("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
  }
  const bool real_type =
      spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  Int storage = 0;
  const Int* integer = as_integer(value, storage);
  if (integer != nullptr && !real_type) return append_integer(runtime, out, spec, *integer);
  if (integer == nullptr && !real_type && spec.type != 0 && spec.type != 'n') {
    runtime.fail("Unknown format code '{}' for object of type 'float'", spec.type);
  }
  append_float(runtime, out, spec, to_double(value));
}

}  // namespace strata::text::jinja
