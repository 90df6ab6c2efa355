// Numbers as Python reads, writes and computes them.
#pragma once

#include "src/text/jinja_runtime.hpp"
#include "src/text/jinja_value.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace strata::text::jinja {

enum class IntegerSyntax : std::uint8_t { kValid, kInvalid, kTooLarge };

// int(text, base): surrounding whitespace, a sign, a 0x, 0o or 0b prefix that fits the base, single
// underscores between digits. `base` is 0 (as the prefix says) or 2 to 36.
[[nodiscard]] IntegerSyntax parse_integer(std::string_view text, int base, Int& value);

// float(text): nullopt for what Python does not take.
[[nodiscard]] std::optional<double> parse_float(std::string_view text);

[[nodiscard]] std::string integer_text(Int value,
                                       int base = 10);  // lower-case digits, sign in front
[[nodiscard]] std::string float_text(double value);     // repr(value)
// The value in C's printf format `type` (e, f, g and upper case) with that precision.
[[nodiscard]] std::string float_text(double value, char type, int precision, bool alternate);

// Int of a double's whole part, or nullopt when it is not finite or beyond 127 bits.
[[nodiscard]] std::optional<Int> truncate(double value);

enum class BinaryOperator : std::uint8_t;
// left op right for two numbers (bool, Int, double); `op` is arithmetic. Fails as Python does.
[[nodiscard]] Value arithmetic(const Runtime& runtime, BinaryOperator op, const Value& left,
                               const Value& right);

// round(value, digits) for a number.
[[nodiscard]] Value round_number(const Runtime& runtime, const Value& value, Int digits);

}  // namespace strata::text::jinja
