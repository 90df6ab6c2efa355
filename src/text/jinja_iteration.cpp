#include "src/text/jinja_iteration.hpp"

#include "src/text/jinja_unicode.hpp"

namespace strata::text::jinja {

bool iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kView:
    case Kind::kRange:
    case Kind::kIterator:
      return true;
    default:
      return false;
  }
}

std::optional<std::size_t> length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return value.string()->length;
    case Kind::kList:
    case Kind::kTuple:
      return value.sequence()->size();
    case Kind::kDict:
      return value.dict()->entries.size();
    case Kind::kView:
      return length_of(value.view()->dict);
    case Kind::kRange:
      return value.range()->length;
    default:
      return std::nullopt;
  }
}

int Cursor::depth() const { return depth_of(iterable_); }

Cursor::Cursor(Runtime& runtime, Value iterable) : iterable_(std::move(iterable)) {
  if (!jinja::iterable(iterable_)) {
    runtime.fail("'{}' object is not iterable", type_name(iterable_));
  }
  size_ = length_of(iterable_);
}

bool Cursor::next(Runtime& runtime, Value& item) {
  runtime.step();
  if (auto* iterator = iterable_.iterator()) return runtime.advance(*iterator, item);
  if (at_ >= *length_of(iterable_)) return false;
  switch (iterable_.kind()) {
    case Kind::kString: {
      const StringObject& string = *iterable_.string();
      const std::size_t end = byte_ + decode(string.bytes(), byte_).size;
      item = runtime.text(string.text.slice(byte_, end), string.markup);
      byte_ = end;
      break;
    }
    case Kind::kList:
    case Kind::kTuple:
      item = (*iterable_.sequence())[at_];
      break;
    case Kind::kDict:
      item = iterable_.dict()->entries[at_].first;
      break;
    case Kind::kView:
      item = view_item(runtime, *iterable_.view(), at_);
      break;
    default:
      item = iterable_.range()->at(at_);
      break;
  }
  ++at_;
  return true;
}

Value view_item(Runtime& runtime, const ViewObject& view, std::size_t index) {
  const auto& [key, value] = view.dict.dict()->entries[index];
  switch (view.part) {
    case ViewObject::Part::kKeys:
      return key;
    case ViewObject::Part::kValues:
      return value;
    case ViewObject::Part::kItems:
      break;
  }
  return runtime.tuple({key, value});
}

std::vector<Value> collect(Runtime& runtime, const Value& value) {
  Cursor cursor(runtime, value);
  std::vector<Value> items;
  Value item;
  while (cursor.next(runtime, item)) {
    runtime.check_items(items.size() + 1);
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace strata::text::jinja
