// Filters that choose items, and filters on single values.
#include "src/text/jinja_builtins.hpp"
#include "src/text/jinja_iteration.hpp"
#include "src/text/jinja_numbers.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_print.hpp"
#include "src/text/jinja_strings.hpp"

#include <algorithm>
#include <cmath>

namespace strata::text::jinja {
namespace {

// ---- choosing and mapping ----

// Arguments for another filter or test, copied for each item.
struct Applied {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  [[nodiscard]] int depth() const {
    int deepest = 0;
    for (const Value& value : positional) deepest = std::max(deepest, depth_of(value));
    for (const auto& [name, value] : keywords) deepest = std::max(deepest, depth_of(value));
    return deepest;
  }
  [[nodiscard]] CallArguments arguments(Runtime& runtime, std::string_view function) const {
    CallArguments call(runtime, function);
    call.positional = positional;
    call.keywords = keywords;
    return call;
  }
};

const StringObject& require_name(Runtime& runtime, const Value& name, std::string_view what) {
  if (const auto* string = name.string()) return *string;
  refuse_undefined(runtime, name);
  runtime.fail("a {} is given by its name, not by a {}", what, type_name(name));
}

// select, reject, selectattr and rejectattr: the items for which a test holds, or does not.
template <bool wanted, bool by_attribute>
Value select(Runtime& runtime, const Value& input, CallArguments& arguments) {
  Applied applied{arguments.take_rest(), std::move(arguments.keywords)};
  arguments.keywords.clear();
  if (!truthy(input)) return runtime.iterator(0, [](Value&) { return false; });
  Value attribute;
  if (by_attribute) {
    if (applied.positional.empty()) runtime.fail("Missing parameter for attribute name");
    attribute = applied.positional.front();
    applied.positional.erase(applied.positional.begin());
  }
  const AttributePath path(runtime, attribute);
  const Test* test = nullptr;
  if (!applied.positional.empty()) {
    const StringObject& name = require_name(runtime, applied.positional.front(), "test");
    test = find_test(name.bytes());
    if (test == nullptr) runtime.fail("No test named {}.", short_repr(name.bytes()));
    applied.positional.erase(applied.positional.begin());
  }
  Cursor cursor(runtime, input);
  const int depth = std::max({depth_of(input), path.depth(), applied.depth()});
  return runtime.iterator(depth, [=, &runtime](Value& item) mutable {
    while (cursor.next(runtime, item)) {
      const Value subject = path.follow(runtime, item);
      bool holds = false;
      if (test == nullptr) {
        holds = truthy(subject);
      } else {
        CallArguments call = applied.arguments(runtime, test->name);
        holds = test->call(runtime, subject, call);
      }
      if (holds == wanted) return true;
    }
    return false;
  });
}

Value map_attribute(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Value attribute = arguments.take_keyword("attribute");
  Value fallback = arguments.take_keyword("default");
  arguments.finish();
  const AttributePath path(runtime, attribute, fallback);
  Cursor cursor(runtime, input);
  return runtime.iterator(std::max(depth_of(input), path.depth()),
                          [=, &runtime](Value& item) mutable {
                            if (!cursor.next(runtime, item)) return false;
                            item = path.follow(runtime, item);
                            return true;
                          });
}

Value map(Runtime& runtime, const Value& input, CallArguments& arguments) {
  if (!truthy(input)) return runtime.iterator(0, [](Value&) { return false; });
  const auto& keywords = arguments.keywords;
  const bool by_attribute = arguments.positional.empty() &&
                            std::any_of(keywords.begin(), keywords.end(), [](const auto& keyword) {
                              return keyword.first == "attribute";
                            });
  if (by_attribute) return map_attribute(runtime, input, arguments);
  if (arguments.positional.empty()) runtime.fail("map requires a filter argument");
  Applied applied{arguments.take_rest(), std::move(arguments.keywords)};
  const StringObject& name = require_name(runtime, applied.positional.front(), "filter");
  const Filter* filter = find_filter(name.bytes());
  if (filter == nullptr) runtime.fail("No filter named {}.", short_repr(name.bytes()));
  applied.positional.erase(applied.positional.begin());
  Cursor cursor(runtime, input);
  return runtime.iterator(std::max(depth_of(input), applied.depth()),
                          [=, &runtime](Value& item) mutable {
                            if (!cursor.next(runtime, item)) return false;
                            CallArguments call = applied.arguments(runtime, filter->name);
                            item = filter->call(runtime, item, call);
                            return true;
                          });
}

// ---- single values ----

Value fallback_filter(Runtime& runtime, const Value& input, CallArguments& arguments) {
  Value fallback = arguments.optional("default_value", runtime.text("", true));
  const bool boolean = arguments.flag("boolean", false);
  arguments.finish();
  return input.undefined() || (boolean && !truthy(input)) ? fallback : input;
}

Value attr(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Value name = arguments.string("name");
  arguments.finish();
  Value found = find_attribute(runtime, input, name.string()->bytes());
  if (!found.missing()) return found;
  return runtime.undefined(fmt::format("'{} object' has no attribute {}", type_name(input),
                                       short_repr(name.string()->bytes())));
}

Value to_int(Runtime& runtime, const Value& input, CallArguments& arguments) {
  Value fallback = arguments.optional("default", Value(Int{0}));
  const Int base = arguments.integer("base", 10);
  arguments.finish();
  refuse_undefined(runtime, input);
  Int storage = 0;
  if (const Int* integer = as_integer(input, storage)) return *integer;
  std::optional<double> real;
  if (const double* number = input.get<double>()) {
    if (std::isinf(*number)) runtime.fail("cannot convert float infinity to integer");
    real = *number;
  } else if (const auto* string = input.string()) {
    runtime.touch_bytes(string->text.size());
    if (base == 0 || (base >= 2 && base <= 36)) {
      const IntegerSyntax syntax = parse_integer(string->bytes(), static_cast<int>(base), storage);
      if (syntax == IntegerSyntax::kValid) return storage;
      if (syntax == IntegerSyntax::kTooLarge) runtime.fail("an integer needs more than 127 bits");
    }
    real = parse_float(string->bytes());
  }
  if (!real || !std::isfinite(*real)) return fallback;
  const auto whole = truncate(*real);
  if (!whole) runtime.fail("an integer needs more than 127 bits");
  return *whole;
}

Value to_float(Runtime& runtime, const Value& input, CallArguments& arguments) {
  Value fallback = arguments.optional("default", Value(0.0));
  arguments.finish();
  refuse_undefined(runtime, input);
  if (input.number()) return to_double(input);
  const auto* string = input.string();
  if (string == nullptr) return fallback;
  runtime.touch_bytes(string->text.size());
  const auto real = parse_float(string->bytes());
  return real ? Value(*real) : fallback;
}

Value absolute(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  if (!input.number()) {
    refuse_undefined(runtime, input);
    runtime.fail("bad operand type for abs(): '{}'", type_name(input));
  }
  if (const double* real = input.get<double>()) return std::abs(*real);
  const bool negative = compare_numbers(input, Value(Int{0})) < 0;
  return negate(runtime, negative ? UnaryOperator::kMinus : UnaryOperator::kPlus, input);
}

Value round_filter(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Int precision = arguments.integer("precision", 0);
  const Value method = arguments.optional("method", runtime.text("common", true));
  arguments.finish();
  const std::string_view name =
      method.is(Kind::kString) ? method.string()->bytes() : std::string_view();
  if (name != "common" && name != "ceil" && name != "floor") {
    runtime.fail("method must be common, ceil or floor");
  }
  if (!input.number()) {
    refuse_undefined(runtime, input);
    runtime.fail("type {} doesn't define __round__ method", type_name(input));
  }
  if (name == "common") return round_number(runtime, input, precision);
  if (!input.is(Kind::kFloat) && precision >= 0) return to_double(input);  // a whole number stays
  const Value unit = arithmetic(runtime, BinaryOperator::kPower, Value(Int{10}), Value(precision));
  const double scaled = to_double(arithmetic(runtime, BinaryOperator::kMultiply, input, unit));
  if (!std::isfinite(scaled))
    runtime.fail("cannot convert float {} to integer", float_text(scaled));
  // Python's ceil and floor give an int, which knows no negative zero.
  const double whole = (name == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0;
  return arithmetic(runtime, BinaryOperator::kDivide, Value(whole), unit);
}

constexpr Filter kSelectionFilters[] = {
    {"map", map},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
};

constexpr Filter kValueFilters[] = {
    {"abs", absolute},   {"attr", attr},  {"d", fallback_filter},  {"default", fallback_filter},
    {"float", to_float}, {"int", to_int}, {"round", round_filter},
};

}  // namespace

std::span<const Filter> selection_filters() { return kSelectionFilters; }
std::span<const Filter> value_filters() { return kValueFilters; }

}  // namespace strata::text::jinja
