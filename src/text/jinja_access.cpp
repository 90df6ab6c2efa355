// Attributes, items and slices.
#include "src/text/jinja_builtins.hpp"
#include "src/text/jinja_callable.hpp"
#include "src/text/jinja_iteration.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_print.hpp"
#include "src/text/jinja_unicode.hpp"

#include <algorithm>
#include <array>

namespace strata::text::jinja {
namespace {

// jinja2's object_type_repr.
std::string describe_object(const Value& object) {
  if (object.none()) return "None";
  return fmt::format("{} object", type_name(object));
}

Value no_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.undefined(
      fmt::format("'{}' has no attribute {}", describe_object(object), short_repr(name)));
}

Value no_item(Runtime& runtime, const Value& object, const Value& index) {
  if (const auto* name = index.string()) return no_attribute(runtime, object, name->bytes());
  const Value shown = to_repr(runtime, index);
  const std::string_view text = shown.string()->bytes();
  constexpr std::size_t kShown = 80;
  const std::size_t cut = text.size() <= kShown ? text.size() : previous(text, kShown + 1);
  return runtime.undefined(
      fmt::format("{} has no element {}", describe_object(object), text.substr(0, cut)));
}

// What the immutable sandbox forbids: methods that change an object in place.
bool changes_object(const Value& object, std::string_view name) {
  static constexpr std::array<std::string_view, 8> kListMethods = {
      "append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  static constexpr std::array<std::string_view, 5> kDictMethods = {"clear", "pop", "popitem",
                                                                   "setdefault", "update"};
  const auto among = [name](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return (object.is(Kind::kList) && among(kListMethods)) ||
         (object.is(Kind::kDict) && among(kDictMethods));
}

Value group_attribute(const Value& object, std::string_view name) {
  const auto* tuple = object.tuple();
  if (tuple == nullptr || !tuple->group) return {};
  if (name == "grouper") return tuple->items[0];
  if (name == "list") return tuple->items[1];
  return {};
}

Value range_attribute(const Value& object, std::string_view name) {
  const RangeObject& range = *object.range();
  if (name == "start") return range.start;
  if (name == "stop") return range.stop;
  if (name == "step") return range.step;
  return {};
}

Value macro_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  const Macro* macro = object.callable()->macro.get();
  if (macro == nullptr) return {};
  if (name == "name") return runtime.text(macro->text_name, true);
  if (name == "catch_kwargs") return macro->uses_kwargs;
  if (name == "catch_varargs") return macro->uses_varargs;
  if (name == "caller") return macro->uses_caller;
  if (name == "arguments") {
    std::vector<Value> names;
    for (const auto& parameter : macro->parameters) {
      names.push_back(runtime.text(parameter.name, true));
    }
    return runtime.tuple(std::move(names));
  }
  return {};
}

// The position of object[index] in a sequence of `size`, or nullopt when out of range.
std::optional<std::size_t> position(Int index, std::size_t size) {
  const auto count = static_cast<Int>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index);
}

// object[index] alone, without attributes: missing when there is no such item.
Value find_item(Runtime& runtime, const Value& object, const Value& index) {
  if (const auto* dict = object.dict()) {
    if (!hashable(index)) return {};
    const Value* found = dict->find(index);
    return found == nullptr ? Value() : *found;
  }
  Int storage = 0;
  const Int* number = as_integer(index, storage);
  if (number == nullptr) return {};
  const bool indexable =
      object.is(Kind::kString) || object.is(Kind::kRange) || object.sequence() != nullptr;
  if (!indexable) return {};
  const auto at = position(*number, *length_of(object));
  if (!at) return {};
  if (const auto* items = object.sequence()) return (*items)[*at];
  if (const auto* range = object.range()) return range->at(*at);
  const StringObject& string = *object.string();
  runtime.touch_bytes(string.ascii() ? 0 : string.text.size());
  const std::size_t begin = string.offset(*at);
  const std::size_t end = begin + decode(string.bytes(), begin).size;
  return runtime.text(string.text.slice(begin, end), string.markup);
}

// What a slice takes of a sequence: `count` indices from `first` on, `step` apart. `stop` bounds
// them.
struct Indices {
  Int first, stop, step;
  std::size_t count;
};

// The number a slice bound gives, or nullopt when it is left out.
std::optional<Int> slice_number(const Runtime& runtime, const Value& bound) {
  if (bound.missing() || bound.none()) return std::nullopt;
  Int storage = 0;
  if (const Int* number = as_integer(bound, storage)) return *number;
  refuse_undefined(runtime, bound);
  runtime.fail("slice indices must be integers or None, not {}", type_name(bound));
}

Int clamp_index(std::optional<Int> index, Int fallback, Int size, Int low, Int high) {
  if (!index) return fallback;
  return std::clamp(*index < 0 ? std::max(*index, -size - 1) + size : *index, low, high);
}

Indices slice_indices(const Runtime& runtime, const SliceBounds& bounds, std::size_t length) {
  const auto size = static_cast<Int>(length);
  const Int step = std::clamp(slice_number(runtime, bounds.step).value_or(1), -size - 1, size + 1);
  if (step == 0) runtime.fail("slice step cannot be zero");
  const bool forward = step > 0;
  const Int low = forward ? 0 : -1;
  const Int high = forward ? size : size - 1;
  const Int first =
      clamp_index(slice_number(runtime, bounds.start), forward ? low : high, size, low, high);
  const Int stop =
      clamp_index(slice_number(runtime, bounds.stop), forward ? high : low, size, low, high);
  const Int span = forward ? stop - first : first - stop;
  const Int stride = forward ? step : -step;
  const Int count = span <= 0 ? 0 : (span - 1) / stride + 1;
  return {first, stop, step, static_cast<std::size_t>(count)};
}

Value slice_string(Runtime& runtime, const Value& value, const Indices& indices) {
  const StringObject& string = *value.string();
  runtime.touch_bytes(string.text.size());
  if (indices.count == 0) return runtime.text(Text(), string.markup);
  if (indices.step == 1) {
    const std::size_t begin = string.offset(static_cast<std::size_t>(indices.first));
    const std::size_t end = string.ascii()
                                ? begin + indices.count
                                : begin + offset_of(string.bytes().substr(begin), indices.count);
    return runtime.text(string.text.slice(begin, end), string.markup);
  }
  std::vector<std::uint32_t> starts;  // of every character
  starts.reserve(string.length);
  for (std::size_t at = 0; at < string.text.size(); at += decode(string.bytes(), at).size) {
    starts.push_back(static_cast<std::uint32_t>(at));
  }
  runtime.step(starts.size());
  TextBuilder out(runtime);
  Int index = indices.first;
  for (std::size_t i = 0; i < indices.count; ++i, index += indices.step) {
    const std::size_t begin = starts[static_cast<std::size_t>(index)];
    out.append(string.text, begin, begin + decode(string.bytes(), begin).size);
  }
  return out.value(string.markup);
}

}  // namespace

Value find_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  refuse_undefined(runtime, object);
  if (name.starts_with("__") || changes_object(object, name)) {
    return runtime.undefined(fmt::format("access to attribute {} of '{}' object is unsafe.",
                                         short_repr(name), type_name(object)));
  }
  switch (object.kind()) {
    case Kind::kNamespace: {
      const Value* found = object.name_space()->find(name);
      return found == nullptr ? Value() : *found;
    }
    case Kind::kLoop:
      return loop_attribute(runtime, object, name);
    case Kind::kRange:
      return range_attribute(object, name);
    case Kind::kCallable:
      return macro_attribute(runtime, object, name);
    default:
      break;
  }
  Value value = group_attribute(object, name);
  return value.missing() ? find_method(runtime, object, name) : value;
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (const auto* dict = object.dict(); dict != nullptr && name.starts_with('_')) {
    if (const Value* found = dict->find(name)) return *found;
  }
  Value attribute = find_attribute(runtime, object, name);
  if (!attribute.missing()) return attribute;
  if (const auto* dict = object.dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return no_attribute(runtime, object, name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& index) {
  refuse_undefined(runtime, object);
  Value item = find_item(runtime, object, index);
  if (!item.missing()) return item;
  if (const auto* name = index.string()) {
    Value attribute = find_attribute(runtime, object, name->bytes());
    if (!attribute.missing()) return attribute;
  }
  return no_item(runtime, object, index);
}

Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  refuse_undefined(runtime, object);
  const bool sliceable =
      object.is(Kind::kString) || object.is(Kind::kRange) || object.sequence() != nullptr;
  if (!sliceable) runtime.fail("'{}' object cannot be sliced", type_name(object));
  const Indices indices = slice_indices(runtime, bounds, *length_of(object));
  if (object.is(Kind::kString)) return slice_string(runtime, object, indices);
  if (const auto* range = object.range()) {
    return runtime.range(range->start + indices.first * range->step,
                         range->start + indices.stop * range->step, range->step * indices.step);
  }
  const auto& items = *object.sequence();
  std::vector<Value> taken;
  taken.reserve(indices.count);
  Int index = indices.first;
  for (std::size_t i = 0; i < indices.count; ++i, index += indices.step) {
    taken.push_back(items[static_cast<std::size_t>(index)]);
  }
  return object.is(Kind::kList) ? runtime.list(std::move(taken)) : runtime.tuple(std::move(taken));
}

}  // namespace strata::text::jinja
