// Python's operators on values.
#pragma once

#include "src/text/jinja_ast.hpp"
#include "src/text/jinja_runtime.hpp"
#include "src/text/jinja_value.hpp"

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace strata::text::jinja {

// Fails with an undefined value's message; does nothing for any other.
void refuse_undefined(const Runtime& runtime, const Value& value);

// Every operator but `and` and `or`.
[[nodiscard]] Value apply(Runtime& runtime, BinaryOperator op, const Value& left,
                          const Value& right);
[[nodiscard]] Value negate(Runtime& runtime, UnaryOperator op, const Value& operand);  // - and +
[[nodiscard]] bool compare(Runtime& runtime, Comparison op, const Value& left, const Value& right);

[[nodiscard]] bool equals(Runtime& runtime, const Value& left, const Value& right);
[[nodiscard]] bool less(Runtime& runtime, const Value& left, const Value& right);
// needle in haystack
[[nodiscard]] bool contains(Runtime& runtime, const Value& needle, const Value& haystack);
void require_hashable(const Runtime& runtime, const Value& key);

// object.name: attributes and methods first, then the item of that name. Undefined when there is
// neither.
[[nodiscard]] Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
// object[index]: the item first. Undefined when there is neither.
[[nodiscard]] Value get_item(Runtime& runtime, const Value& object, const Value& index);
// The attribute or method alone; a missing Value when there is none. What the sandbox forbids is
// undefined, with the reason.
[[nodiscard]] Value find_attribute(Runtime& runtime, const Value& object, std::string_view name);

// object[start:stop:step]; a bound that was left out is a missing Value.
struct SliceBounds {
  Value start, stop, step;
};
[[nodiscard]] Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

}  // namespace strata::text::jinja
