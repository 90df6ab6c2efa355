// The tests of jinja2: value is name(arguments).
#include "src/text/jinja_builtins.hpp"
#include "src/text/jinja_iteration.hpp"
#include "src/text/jinja_numbers.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_print.hpp"
#include "src/text/jinja_strings.hpp"
#include "src/text/jinja_unicode.hpp"

#include <algorithm>

namespace strata::text::jinja {
namespace {

template <Kind... kinds>
bool is_kind(Runtime& /*runtime*/, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return (input.is(kinds) || ...);
}

bool is_defined(Runtime& /*runtime*/, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return !input.undefined();
}

template <bool wanted>
bool is_boolean(Runtime& /*runtime*/, const Value& input, CallArguments& arguments) {
  arguments.finish();
  const bool* boolean = input.get<bool>();
  return boolean != nullptr && *boolean == wanted;
}

bool is_sequence(Runtime& /*runtime*/, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return length_of(input).has_value() && !input.is(Kind::kView);
}

bool is_iterable(Runtime& /*runtime*/, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return iterable(input) || input.is(Kind::kLoop);
}

bool is_callable(Runtime& /*runtime*/, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return input.is(Kind::kCallable) || input.is(Kind::kLoop) || input.undefined();
}

bool divides(Runtime& runtime, const Value& input, const Value& number, Int rest) {
  const Value modulo = apply(runtime, BinaryOperator::kModulo, input, number);
  return equals(runtime, modulo, Value(rest));
}

bool is_odd(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return divides(runtime, input, Value(Int{2}), 1);
}

bool is_even(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return divides(runtime, input, Value(Int{2}), 0);
}

bool is_divisible(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Value number = arguments.required("num");
  arguments.finish();
  return divides(runtime, input, number, 0);
}

template <Comparison comparison>
bool compares(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.positional_only();
  const Value other = arguments.required("other");
  arguments.finish();
  return compare(runtime, comparison, input, other);
}

bool is_in(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Value sequence = arguments.required("seq");
  arguments.finish();
  return contains(runtime, input, sequence);
}

bool is_same(Runtime& /*runtime*/, const Value& input, CallArguments& arguments) {
  const Value other = arguments.required("other");
  arguments.finish();
  return identical(input, other);
}

bool is_escaped(Runtime& /*runtime*/, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return input.is(Kind::kString) && input.string()->markup;
}

template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
bool is_cased(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  const Value text = to_str(runtime, input);
  return has_case(runtime, *text.string(), wanted, other);
}

template <class Find>
bool is_known(Runtime& runtime, const Value& input, CallArguments& arguments, Find find) {
  arguments.finish();
  if (!hashable(input)) runtime.fail("unhashable type: '{}'", type_name(input));
  return input.is(Kind::kString) && find(input.string()->bytes()) != nullptr;
}

bool is_filter(Runtime& runtime, const Value& input, CallArguments& arguments) {
  return is_known(runtime, input, arguments, find_filter);
}

bool is_test(Runtime& runtime, const Value& input, CallArguments& arguments) {
  return is_known(runtime, input, arguments, find_test);
}

constexpr Test kTests[] = {
    {"!=", compares<Comparison::kNotEqual>},
    {"<", compares<Comparison::kLess>},
    {"<=", compares<Comparison::kLessEqual>},
    {"==", compares<Comparison::kEqual>},
    {">", compares<Comparison::kGreater>},
    {">=", compares<Comparison::kGreaterEqual>},
    {"boolean", is_kind<Kind::kBool>},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisible},
    {"eq", compares<Comparison::kEqual>},
    {"equalto", compares<Comparison::kEqual>},
    {"escaped", is_escaped},
    {"even", is_even},
    {"false", is_boolean<false>},
    {"filter", is_filter},
    {"float", is_kind<Kind::kFloat>},
    {"ge", compares<Comparison::kGreaterEqual>},
    {"greaterthan", compares<Comparison::kGreater>},
    {"gt", compares<Comparison::kGreater>},
    {"in", is_in},
    {"integer", is_kind<Kind::kInt>},
    {"iterable", is_iterable},
    {"le", compares<Comparison::kLessEqual>},
    {"lessthan", compares<Comparison::kLess>},
    {"lower", is_cased<is_lower, is_upper>},
    {"lt", compares<Comparison::kLess>},
    {"mapping", is_kind<Kind::kDict>},
    {"ne", compares<Comparison::kNotEqual>},
    {"none", is_kind<Kind::kNone>},
    {"number", is_kind<Kind::kBool, Kind::kInt, Kind::kFloat>},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", is_sequence},
    {"string", is_kind<Kind::kString>},
    {"test", is_test},
    {"true", is_boolean<true>},
    {"undefined", is_kind<Kind::kUndefined>},
    {"upper", is_cased<is_upper, is_lower>},
};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kTests), std::end(kTests),
                                         [name](const Test& test) { return test.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace strata::text::jinja
