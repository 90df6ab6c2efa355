// Numbers of JSON within bounds, as automata over their digits.
#pragma once

#include "src/text/grammar_automaton.hpp"
#include "src/text/json_schema_shape.hpp"

namespace strata::text::schema {

// The numbers of the shape, its `values` and `excluded` aside. Without bounds they have at most 18
// digits in front of the point, 16 behind it and 2 in the exponent, so that every reader of JSON
// can hold them; with bounds they have no exponent, and up to 20 digits if a bound has.
// Error(kUsage) for a multipleOf that cannot be enforced.
[[nodiscard]] grammar::Dfa number_language(const Shape& shape, SchemaDocument& document);

// Whether `value`, a number, is one of them by JSON Schema's rules: 1.0 is an integer.
[[nodiscard]] bool number_holds(const Json& value, const Shape& shape);
// Whether no number satisfies both shapes' bounds.
[[nodiscard]] bool numbers_apart(const Shape& a, const Shape& b);

}  // namespace strata::text::schema
