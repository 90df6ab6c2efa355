#include "src/text/jinja_format.hpp"
#include "src/text/jinja_numbers.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_print.hpp"
#include "src/text/jinja_strings.hpp"
#include "src/text/jinja_unicode.hpp"
#include "strata/text/unicode.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace strata::text::jinja {
namespace {

constexpr Int kMaxPrecision = 1000;

// One %[(key)][flags][width][.precision]type.
struct Conversion {
  bool left = false, plus = false, space = false, zero = false, alternate = false;
  Int width = 0;
  std::optional<Int> precision;
  char type = 0;
};

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const StringObject& format, const Value& operand)
      : runtime_(runtime),
        format_(format),
        operand_(operand),
        // As CPython: anything that can be subscripted, save a tuple or a string, may serve by
        // keys, and need not be used.
        mapping_(operand.is(Kind::kDict) || operand.is(Kind::kList) || operand.is(Kind::kRange) ||
                 operand.is(Kind::kUndefined)),
        out_(runtime) {}

  Value run() {
    const std::string_view text = format_.bytes();
    while (at_ < text.size()) {
      const std::size_t percent = std::min(text.find('%', at_), text.size());
      out_.append(format_.text, at_, percent);
      at_ = percent;
      if (at_ < text.size()) convert();
    }
    const auto* tuple = operand_.tuple();
    const bool used_up = tuple != nullptr ? next_ == tuple->items.size() : next_ > 0 || mapping_;
    if (!used_up) runtime_.fail("not all arguments converted during string formatting");
    return out_.value(format_.markup);
  }

 private:
  char take() {
    if (at_ >= format_.text.size()) runtime_.fail("incomplete format");
    return format_.bytes()[at_++];
  }

  Value next_argument() {
    if (const auto* tuple = operand_.tuple(); tuple != nullptr && !keyed_) {
      if (next_ < tuple->items.size()) return tuple->items[next_++];
    } else if (next_++ == 0 || keyed_) {
      return keyed_ ? *keyed_ : operand_;
    }
    runtime_.fail("not enough arguments for format string");
  }

  void take_key() {
    const std::size_t begin = at_;
    for (int depth = 1; depth > 0;) {
      const char c = take();
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    if (!mapping_) runtime_.fail("format requires a mapping");
    const Value key = runtime_.text(format_.text.slice(begin, at_ - 1));
    const auto* dict = operand_.dict();
    if (dict == nullptr) {
      refuse_undefined(runtime_, operand_);
      runtime_.fail("{} indices must be integers, not str", type_name(operand_));
    }
    const Value* found = dict->find(key);
    if (found == nullptr) runtime_.fail("KeyError: {}", short_repr(key.string()->bytes()));
    keyed_ = *found;
  }

  // A number in the format, or "*" for one among the arguments.
  std::optional<Int> take_size() {
    const std::string_view text = format_.bytes();
    if (at_ < text.size() && text[at_] == '*') {
      ++at_;
      const Value argument = next_argument();
      Int storage = 0;
      const Int* number = as_integer(argument, storage);
      if (number == nullptr) runtime_.fail("* wants int");
      return *number;
    }
    std::optional<Int> size;
    while (at_ < text.size() && text[at_] >= '0' && text[at_] <= '9') {
      size = size.value_or(0) * 10 + (text[at_++] - '0');
      if (*size > 0x7FFFFFFF) runtime_.fail("width or precision too big");
    }
    return size;
  }

  void convert() {
    runtime_.step();
    ++at_;
    Conversion conversion;
    keyed_.reset();
    char c = take();
    if (c == '(') {
      take_key();
      c = take();
    }
    for (;; c = take()) {
      if (c == '-') {
        conversion.left = true;
      } else if (c == '+') {
        conversion.plus = true;
      } else if (c == ' ') {
        conversion.space = true;
      } else if (c == '#') {
        conversion.alternate = true;
      } else if (c == '0') {
        conversion.zero = true;
      } else {
        break;
      }
    }
    --at_;
    conversion.width = take_size().value_or(0);
    if (conversion.width < 0) {
      conversion.left = true;
      conversion.width = -conversion.width;
    }
    if (at_ < format_.text.size() && format_.bytes()[at_] == '.') {
      ++at_;
      conversion.precision = std::max<Int>(take_size().value_or(0), 0);
    }
    c = take();
    while (c == 'h' || c == 'l' || c == 'L') c = take();
    conversion.type = c;
    write(conversion);
  }

  void write(const Conversion& conversion) {
    switch (conversion.type) {
      case '%':
        return out_.append("%", true);
      case 's':
        return write_text(conversion, to_str(runtime_, escaped(next_argument())));
      case 'r':
      case 'a':
        return write_text(conversion,
                          escaped(to_repr(runtime_, next_argument(), conversion.type == 'a')));
      case 'c':
        return write_character(conversion);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return write_integer(conversion);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return write_float(conversion);
      default:
        runtime_.fail("unsupported format character in '%' formatting at byte {}", at_ - 1);
    }
  }

  // A format marked safe escapes the strings it takes in.
  Value escaped(Value value) {
    if (!format_.markup || value.number() || value.none()) return value;
    return escape_html(runtime_, to_str(runtime_, value));
  }

  void write_text(const Conversion& conversion, const Value& value) {
    const StringObject& string = *value.string();
    std::size_t length = string.length;
    std::size_t end = string.text.size();
    if (conversion.precision && *conversion.precision < static_cast<Int>(length)) {
      length = static_cast<std::size_t>(*conversion.precision);
      end = string.offset(length);
    }
    const std::size_t padding = missing(conversion, length);
    if (!conversion.left) out_.repeat(' ', padding, true);
    out_.append(string.text, 0, end);
    if (conversion.left) out_.repeat(' ', padding, true);
  }

  [[nodiscard]] std::size_t missing(const Conversion& conversion, std::size_t length) const {
    const Int padding = std::max<Int>(conversion.width - static_cast<Int>(length), 0);
    runtime_.check_text_size(static_cast<std::size_t>(padding));
    return static_cast<std::size_t>(padding);
  }

  void write_character(const Conversion& conversion) {
    const Value argument = next_argument();
    Int storage = 0;
    if (const Int* code = as_integer(argument, storage)) {
      if (*code < 0 || *code > 0x10FFFF || !is_code_point(static_cast<std::uint32_t>(*code))) {
        runtime_.fail("%c arg not in range(0x110000)");
      }
      std::string text;
      append_utf8(text, static_cast<char32_t>(*code));
      return write_text(conversion, runtime_.text(std::move(text), false));
    }
    if (argument.string() == nullptr || argument.string()->length != 1) {
      runtime_.fail("%c requires int or char");
    }
    write_text(conversion, argument);
  }

  // Digits with their sign and prefix, padded to the width.
  void write_digits(const Conversion& conversion, bool negative, std::string_view prefix,
                    std::string digits) {
    std::string sign = negative ? "-" : conversion.plus ? "+" : conversion.space ? " " : "";
    sign += prefix;
    const std::size_t padding = missing(conversion, sign.size() + digits.size());
    if (conversion.zero && !conversion.left) {
      digits.insert(0, padding, '0');
      return out_.append(sign + digits, true);
    }
    if (!conversion.left) out_.repeat(' ', padding, true);
    out_.append(sign + digits, true);
    if (conversion.left) out_.repeat(' ', padding, true);
  }

  void write_integer(const Conversion& conversion) {
    const Value argument = next_argument();
    const bool decimal = conversion.type == 'd' || conversion.type == 'i' || conversion.type == 'u';
    Int storage = 0;
    const Int* number = as_integer(argument, storage);
    if (const double* real = argument.get<double>(); real != nullptr && decimal) {
      const auto whole = truncate(*real);
      if (!whole) runtime_.fail("cannot convert float {} to integer", float_text(*real));
      storage = *whole;
      number = &storage;
    }
    if (number == nullptr) {
      runtime_.fail("%{} format: a number is required, not {}", conversion.type,
                    type_name(argument));
    }
    const int base = decimal ? 10 : conversion.type == 'o' ? 8 : 16;
    const bool negative = *number < 0;
    std::string digits = integer_text(*number, base);
    if (negative) digits.erase(0, 1);
    const auto wanted = static_cast<std::size_t>(conversion.precision.value_or(0));
    runtime_.check_text_size(wanted);
    if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
    std::string prefix = !conversion.alternate || decimal ? "" : base == 8 ? "0o" : "0x";
    if (conversion.type == 'X') {
      for (std::string* text : {&digits, &prefix}) {
        std::transform(text->begin(), text->end(), text->begin(),
                       [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
      }
    }
    write_digits(conversion, negative, prefix, std::move(digits));
  }

  void write_float(const Conversion& conversion) {
    const Value argument = next_argument();
    if (!argument.number()) {
      refuse_undefined(runtime_, argument);
      runtime_.fail("must be real number, not {}", type_name(argument));
    }
    const Int precision = conversion.precision.value_or(6);
    if (precision > kMaxPrecision) runtime_.fail("precision too big");
    runtime_.step(static_cast<std::size_t>(precision) / 4);
    const double value = to_double(argument);
    std::string digits = float_text(std::abs(value), conversion.type, static_cast<int>(precision),
                                    conversion.alternate);
    write_digits(conversion, std::signbit(value) && !std::isnan(value), "", std::move(digits));
  }

  Runtime& runtime_;
  const StringObject& format_;
  const Value& operand_;
  bool mapping_;
  TextBuilder out_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;        // arguments taken
  std::optional<Value> keyed_;  // the argument that a (key) names
};

}  // namespace

Value format_percent(Runtime& runtime, const Value& format, const Value& operand) {
  return PercentFormatter(runtime, *format.string(), operand).run();
}

}  // namespace strata::text::jinja
