#include "src/text/jinja_numbers.hpp"

#include "src/text/jinja_ast.hpp"
#include "src/text/jinja_unicode.hpp"

#include <locale.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace strata::text::jinja {
namespace {

std::string_view strip(std::string_view text) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    const Decoded c = decode(text, begin);
    if (!is_space(c.code)) break;
    begin += c.size;
  }
  std::size_t end = text.size();
  while (end > begin) {
    const std::size_t start = previous(text, end);
    if (!is_space(decode(text, start).code)) break;
    end = start;
  }
  return text.substr(begin, end - begin);
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

int prefix_base(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 0;
  switch (text[1] | 0x20) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

// The literal without underscores, or nullopt where one stands that is not between digits.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    const auto digit = [&](std::size_t at) {
      return at < text.size() && digit_value(text[at]) < 10;
    };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return std::nullopt;
  }
  return out;
}

[[noreturn]] void fail_size(const Runtime& runtime) {
  runtime.fail("an integer needs more than 127 bits");
}

Int floor_divide(Int left, Int right) {
  const Int quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Int floor_modulo(Int left, Int right) {
  const Int rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

Value integer_power(const Runtime& runtime, Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) runtime.fail("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  Int result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_size(runtime);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_size(runtime);
  }
  return result;
}

Value integer_arithmetic(const Runtime& runtime, BinaryOperator op, Int left, Int right) {
  Int result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOperator::kAdd:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case BinaryOperator::kSubtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case BinaryOperator::kMultiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    case BinaryOperator::kPower:
      return integer_power(runtime, left, right);
    default:
      if (right == 0) {
        runtime.fail("integer division or modulo by zero");
      }
      // The one quotient that does not fit.
      overflow = right == -1 && left == std::numeric_limits<Int>::min();
      if (overflow) break;
      // With 113 bits of precision before the rounding to 53, the quotient of large numbers comes
      // out as in Python.
      if (op == BinaryOperator::kDivide) {
        return static_cast<double>(static_cast<__float128>(left) / static_cast<__float128>(right));
      }
      result =
          op == BinaryOperator::kModulo ? floor_modulo(left, right) : floor_divide(left, right);
  }
  if (overflow) fail_size(runtime);
  return result;
}

double float_modulo(double left, double right) {
  double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  return (rest < 0) != (right < 0) ? rest + right : rest;
}

// As CPython computes it: the quotient that float_modulo leaves, rounded to a whole number.
double float_floor_divide(double left, double right) {
  double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

double float_power(const Runtime& runtime, double base, double exponent) {
  if (base == 0 && exponent < 0) runtime.fail("0.0 cannot be raised to a negative power");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) &&
      exponent != std::floor(exponent)) {
    runtime.fail("complex numbers are not supported");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    runtime.fail("Numerical result out of range");
  }
  return result;
}

Value float_arithmetic(const Runtime& runtime, BinaryOperator op, double left, double right) {
  switch (op) {
    case BinaryOperator::kAdd:
      return left + right;
    case BinaryOperator::kSubtract:
      return left - right;
    case BinaryOperator::kMultiply:
      return left * right;
    case BinaryOperator::kPower:
      return float_power(runtime, left, right);
    default:
      break;
  }
  if (right == 0) runtime.fail("float division or modulo by zero");
  if (op == BinaryOperator::kDivide) return left / right;
  return op == BinaryOperator::kModulo ? float_modulo(left, right)
                                       : float_floor_divide(left, right);
}

}  // namespace

IntegerSyntax parse_integer(std::string_view text, int base, Int& value) {
  text = strip(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const int prefix = prefix_base(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    base = prefix;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
  }
  const bool decimal_literal = base == 0;
  if (decimal_literal) base = 10;
  value = 0;
  bool digit = false;
  bool zero = true;
  bool overflow = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool underscore = text[i] == '_' && digit && i + 1 < text.size();
    digit = !underscore;
    if (underscore) continue;
    const int number = digit_value(text[i]);
    if (number >= base) return IntegerSyntax::kInvalid;
    // Base 0 reads literals, in which a number does not start with 0.
    if (decimal_literal && zero && i > 0 && number != 0) return IntegerSyntax::kInvalid;
    zero = zero && number == 0;
    overflow |= __builtin_mul_overflow(value, static_cast<Int>(base), &value);
    overflow |= __builtin_add_overflow(value, static_cast<Int>(number), &value);
  }
  if (!digit) return IntegerSyntax::kInvalid;
  if (negative) value = -value;
  return overflow ? IntegerSyntax::kTooLarge : IntegerSyntax::kValid;
}

std::optional<double> parse_float(std::string_view text) {
  const std::optional<std::string> plain = without_underscores(strip(text));
  if (!plain || plain->empty()) return std::nullopt;
  // strtod also takes hexadecimal numbers and "nan(...)", which Python does not.
  if (plain->find_first_of("xX(") != std::string::npos) return std::nullopt;
  if (plain->find('\0') != std::string::npos || is_space(static_cast<unsigned char>((*plain)[0]))) {
    return std::nullopt;
  }
  static const locale_t kPlain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  char* end = nullptr;
  const double value = ::strtod_l(plain->c_str(), &end, kPlain);
  if (end != plain->c_str() + plain->size()) return std::nullopt;
  return value;
}

std::string integer_text(Int value, int base) {
  const bool negative = value < 0;
  auto rest = static_cast<unsigned __int128>(value);
  if (negative) rest = -rest;
  std::string out;
  do {
    out.push_back("0123456789abcdefghijklmnopqrstuvwxyz"[static_cast<int>(rest % base)]);
    rest /= base;
  } while (rest != 0);
  if (negative) out.push_back('-');
  std::reverse(out.begin(), out.end());
  return out;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  // The fewest digits that read back as the same number, d.ddde[+-]xx.
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(result.ptr - buffer.data()));
  const std::size_t mark = text.find('e');
  int exponent = 0;
  const std::size_t digits_at = mark + (text[mark + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    return fmt::format("{}e{}{:02}", text.substr(0, mark), exponent < 0 ? '-' : '+',
                       std::abs(exponent));
  }
  const bool negative = text[0] == '-';
  std::string digits(1, text[negative ? 1 : 0]);
  if (const std::size_t point = text.find('.'); point != std::string_view::npos) {
    digits += text.substr(point + 1, mark - point - 1);
  }
  if (exponent < 0) {
    digits.insert(0, "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0'));
  } else {
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() <= whole) digits.append(whole - digits.size(), '0').append("0");
    digits.insert(whole, ".");
  }
  return (negative ? "-" : "") + digits;
}

std::string float_text(double value, char type, int precision, bool alternate) {
  const std::string format = fmt::format("%{}.*{}", alternate ? "#" : "", type);
  const int size = std::snprintf(nullptr, 0, format.c_str(), precision, value);
  std::string out(static_cast<std::size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format.c_str(), precision, value);
  out.pop_back();
  return out;
}

std::optional<Int> truncate(double value) {
  if (!(std::abs(value) < 0x1p127)) return std::nullopt;
  return static_cast<Int>(value);
}

Value arithmetic(const Runtime& runtime, BinaryOperator op, const Value& left, const Value& right) {
  Int left_storage = 0;
  Int right_storage = 0;
  const Int* a = as_integer(left, left_storage);
  const Int* b = as_integer(right, right_storage);
  if (a != nullptr && b != nullptr) return integer_arithmetic(runtime, op, *a, *b);
  return float_arithmetic(runtime, op, to_double(left), to_double(right));
}

Value round_number(const Runtime& runtime, const Value& value, Int digits) {
  Int storage = 0;
  if (const Int* integer = as_integer(value, storage)) {
    if (digits >= 0) return *integer;
    if (digits < -38) return Int{0};
    Int unit = 1;
    for (Int i = 0; i > digits; --i) unit *= 10;
    const Int below = floor_divide(*integer, unit) * unit;
    const Int rest = *integer - below;
    const bool odd = floor_modulo(below / unit, 2) != 0;
    return rest > unit - rest || (rest == unit - rest && odd) ? below + unit : below;
  }
  const double real = to_double(value);
  if (!std::isfinite(real) || digits > 323) return real;
  if (digits < -308) return std::copysign(0.0, real);
  if (digits >= 0) return *parse_float(float_text(real, 'f', static_cast<int>(digits), false));
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  const double rounded = std::nearbyint(real / unit) * unit;
  if (std::isinf(rounded)) runtime.fail("rounded value too large to represent");
  return rounded;
}

}  // namespace strata::text::jinja
