// Python's two ways of formatting: "%s" % value and "{}".format(value).
#pragma once

#include "src/text/jinja_callable.hpp"
#include "src/text/jinja_runtime.hpp"
#include "src/text/jinja_value.hpp"

#include <string_view>

namespace strata::text::jinja {

// format % operand. Text from the operands keeps its provenance; padding and digits are trusted.
[[nodiscard]] Value format_percent(Runtime& runtime, const Value& format, const Value& operand);

// format.format(*arguments), with fields such as {0.name[1]!r:>10}.
[[nodiscard]] Value format_braces(Runtime& runtime, const Value& format, CallArguments& arguments);

// format(value, spec) for a number or a string, appended.
void append_formatted(Runtime& runtime, TextBuilder& out, const Value& value,
                      std::string_view spec_text);

}  // namespace strata::text::jinja
