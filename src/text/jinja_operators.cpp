#include "src/text/jinja_operators.hpp"

#include "src/text/jinja_builtins.hpp"
#include "src/text/jinja_callable.hpp"
#include "src/text/jinja_format.hpp"
#include "src/text/jinja_iteration.hpp"
#include "src/text/jinja_numbers.hpp"
#include "src/text/jinja_print.hpp"
#include "src/text/jinja_strings.hpp"

#include <algorithm>
#include <cmath>

namespace strata::text::jinja {
namespace {

std::string_view symbol(BinaryOperator op) {
  static constexpr std::string_view kSymbols[] = {"or", "and", "+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<std::size_t>(op)];
}

Value join_sequences(Runtime& runtime, const Value& left, const Value& right) {
  const auto& a = *left.sequence();
  const auto& b = *right.sequence();
  runtime.check_items(a.size() + b.size());
  std::vector<Value> items;
  items.reserve(a.size() + b.size());
  items.insert(items.end(), a.begin(), a.end());
  items.insert(items.end(), b.begin(), b.end());
  return left.is(Kind::kList) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

std::size_t repeat_count(Runtime& runtime, Int times, std::size_t size, std::size_t bound) {
  if (times <= 0 || size == 0) return 0;
  if (times > static_cast<Int>(bound / size)) {
    runtime.fail("repeating {} times makes more than the bound of {}", integer_text(times), bound);
  }
  return static_cast<std::size_t>(times);
}

Value repeat(Runtime& runtime, const Value& value, Int times) {
  if (const auto* string = value.string()) {
    const std::size_t count =
        repeat_count(runtime, times, string->text.size(), runtime.limits().max_string_bytes);
    TextBuilder out(runtime);
    for (std::size_t i = 0; i < count; ++i) {
      runtime.step();
      out.append(string->text);
    }
    return out.value(string->markup);
  }
  const auto& items = *value.sequence();
  const std::size_t count = repeat_count(runtime, times, items.size(), runtime.limits().max_items);
  std::vector<Value> repeated;
  repeated.reserve(items.size() * count);
  for (std::size_t i = 0; i < count; ++i) {
    runtime.step(1 + items.size());
    repeated.insert(repeated.end(), items.begin(), items.end());
  }
  return value.is(Kind::kList) ? runtime.list(std::move(repeated))
                               : runtime.tuple(std::move(repeated));
}

bool repeatable(const Value& value) {
  return value.is(Kind::kString) || value.sequence() != nullptr;
}

bool sequences_equal(Runtime& runtime, const std::vector<Value>& left,
                     const std::vector<Value>& right) {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!equals(runtime, left[i], right[i])) return false;
  }
  return true;
}

bool dicts_equal(Runtime& runtime, const DictObject& left, const DictObject& right) {
  if (left.entries.size() != right.entries.size()) return false;
  for (const auto& [key, value] : left.entries) {
    runtime.step();
    const Value* other = right.find(key);
    if (other == nullptr || !equals(runtime, value, *other)) return false;
  }
  return true;
}

bool ranges_equal(const RangeObject& left, const RangeObject& right) {
  if (left.length != right.length) return false;
  if (left.length == 0) return true;
  return left.start == right.start && (left.length == 1 || left.step == right.step);
}

// left op right for <, <=, >, >=.
bool ordered(Runtime& runtime, Comparison op, const Value& left, const Value& right) {
  const auto decide = [op](int order) {
    switch (op) {
      case Comparison::kLess:
        return order < 0;
      case Comparison::kLessEqual:
        return order <= 0;
      case Comparison::kGreater:
        return order > 0;
      default:
        return order >= 0;
    }
  };
  runtime.step();
  if (left.number() && right.number()) {
    const int order = compare_numbers(left, right);
    return order != 2 && decide(order);
  }
  if (left.is(Kind::kString) && right.is(Kind::kString)) {
    const std::string_view a = left.string()->bytes();
    const std::string_view b = right.string()->bytes();
    runtime.touch_bytes(std::min(a.size(), b.size()));
    return decide(a.compare(b));
  }
  if (left.kind() == right.kind() && left.sequence() != nullptr) {
    const auto& a = *left.sequence();
    const auto& b = *right.sequence();
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
      if (!equals(runtime, a[i], b[i])) return ordered(runtime, op, a[i], b[i]);
    }
    return decide(a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0);
  }
  refuse_undefined(runtime, left);
  refuse_undefined(runtime, right);
  static constexpr std::string_view kSymbols[] = {"==", "!=", "<", "<=", ">", ">="};
  runtime.fail("'{}' not supported between instances of '{}' and '{}'",
               kSymbols[static_cast<std::size_t>(op)], type_name(left), type_name(right));
}

bool in_view(Runtime& runtime, const Value& needle, const ViewObject& view) {
  const DictObject& dict = *view.dict.dict();
  if (view.part == ViewObject::Part::kKeys) {
    require_hashable(runtime, needle);
    return dict.find(needle) != nullptr;
  }
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (equals(runtime, view_item(runtime, view, i), needle)) return true;
  }
  return false;
}

bool in_range(const Value& needle, const RangeObject& range) {
  if (!needle.number()) return false;
  for (std::size_t i = 0; i < range.length; ++i) {
    if (compare_numbers(Value(range.at(i)), needle) == 0) return true;
  }
  return false;
}

}  // namespace

void refuse_undefined(const Runtime& runtime, const Value& value) {
  if (const auto* object = value.get<Ref<const UndefinedObject>>()) {
    runtime.fail("{}", (*object)->message);
  }
}

void require_hashable(const Runtime& runtime, const Value& key) {
  if (!hashable(key)) runtime.fail("unhashable type: '{}'", type_name(key));
}

Value apply(Runtime& runtime, BinaryOperator op, const Value& left, const Value& right) {
  // A string on the left formats even an undefined value.
  if (op == BinaryOperator::kModulo && left.is(Kind::kString)) {
    return format_percent(runtime, left, right);
  }
  refuse_undefined(runtime, left);
  refuse_undefined(runtime, right);
  if (left.number() && right.number()) return arithmetic(runtime, op, left, right);
  if (op == BinaryOperator::kAdd) {
    if (left.is(Kind::kString) && right.is(Kind::kString)) return add_strings(runtime, left, right);
    if (left.kind() == right.kind() && left.sequence() != nullptr) {
      return join_sequences(runtime, left, right);
    }
  }
  if (op == BinaryOperator::kMultiply) {
    Int storage = 0;
    if (const Int* times = as_integer(right, storage); times != nullptr && repeatable(left)) {
      return repeat(runtime, left, *times);
    }
    if (const Int* times = as_integer(left, storage); times != nullptr && repeatable(right)) {
      return repeat(runtime, right, *times);
    }
  }
  runtime.fail("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(left),
               type_name(right));
}

Value negate(Runtime& runtime, UnaryOperator op, const Value& operand) {
  refuse_undefined(runtime, operand);
  if (!operand.number()) {
    runtime.fail("bad operand type for unary {}: '{}'", op == UnaryOperator::kMinus ? '-' : '+',
                 type_name(operand));
  }
  if (const double* real = operand.get<double>()) {
    return op == UnaryOperator::kMinus ? -*real : *real;
  }
  return arithmetic(runtime,
                    op == UnaryOperator::kMinus ? BinaryOperator::kSubtract : BinaryOperator::kAdd,
                    Value(Int{0}), operand);
}

bool equals(Runtime& runtime, const Value& left, const Value& right) {
  runtime.step();
  if (left.number() && right.number()) return compare_numbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  if (identical(left, right)) return true;
  switch (left.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kString: {
      const std::string_view a = left.string()->bytes();
      const std::string_view b = right.string()->bytes();
      if (a.size() != b.size()) return false;
      runtime.touch_bytes(a.size());
      return a == b;
    }
    case Kind::kList:
    case Kind::kTuple:
      return sequences_equal(runtime, *left.sequence(), *right.sequence());
    case Kind::kDict:
      return dicts_equal(runtime, *left.dict(), *right.dict());
    case Kind::kRange:
      return ranges_equal(*left.range(), *right.range());
    default:
      return false;
  }
}

bool less(Runtime& runtime, const Value& left, const Value& right) {
  return ordered(runtime, Comparison::kLess, left, right);
}

bool compare(Runtime& runtime, Comparison op, const Value& left, const Value& right) {
  switch (op) {
    case Comparison::kEqual:
      return equals(runtime, left, right);
    case Comparison::kNotEqual:
      return !equals(runtime, left, right);
    case Comparison::kIn:
      return contains(runtime, left, right);
    case Comparison::kNotIn:
      return !contains(runtime, left, right);
    default:
      return ordered(runtime, op, left, right);
  }
}

bool contains(Runtime& runtime, const Value& needle, const Value& haystack) {
  switch (haystack.kind()) {
    case Kind::kString:
      if (!needle.is(Kind::kString)) {
        runtime.fail("'in <string>' requires string as left operand, not {}", type_name(needle));
      }
      return find_text(runtime, haystack.string()->bytes(), needle.string()->bytes(), 0) !=
             std::string_view::npos;
    case Kind::kDict:
      require_hashable(runtime, needle);
      return haystack.dict()->find(needle) != nullptr;
    case Kind::kView:
      return in_view(runtime, needle, *haystack.view());
    case Kind::kRange:
      runtime.step(haystack.range()->length / 8);
      return in_range(needle, *haystack.range());
    case Kind::kList:
    case Kind::kTuple:
      for (const Value& item : *haystack.sequence()) {
        if (equals(runtime, item, needle)) return true;
      }
      return false;
    default:
      break;
  }
  if (!iterable(haystack)) {
    runtime.fail("argument of type '{}' is not iterable", type_name(haystack));
  }
  Cursor cursor(runtime, haystack);
  Value item;
  while (cursor.next(runtime, item)) {
    if (equals(runtime, item, needle)) return true;
  }
  return false;
}

}  // namespace strata::text::jinja
