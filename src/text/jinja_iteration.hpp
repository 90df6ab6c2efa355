// Running through values.
#pragma once

#include "src/text/jinja_runtime.hpp"
#include "src/text/jinja_value.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace strata::text::jinja {

// Python's iter(value): gives the items of a list or tuple, the keys of a dict, the characters of a
// string, and so on.
class Cursor {
 public:
  Cursor() = default;  // of nothing
  // Fails when `iterable` cannot be run through.
  Cursor(Runtime& runtime, Value iterable);
  // The rest of an iterator that turned out to have `size` items in all.
  Cursor(Runtime& runtime, Value rest, std::size_t size) : Cursor(runtime, std::move(rest)) {
    size_ = size;
  }

  // The next item; false at the end. Counts as a step.
  bool next(Runtime& runtime, Value& item);
  // len() of what is run through; nullopt for an iterator, whose end is known only when it is
  // reached.
  [[nodiscard]] std::optional<std::size_t> size() const { return size_; }
  [[nodiscard]] int depth() const;  // of the value it runs through

 private:
  Value iterable_;
  std::optional<std::size_t> size_;
  std::size_t at_ = 0;    // items given
  std::size_t byte_ = 0;  // of a string: the byte after them
};

[[nodiscard]] bool iterable(const Value& value);
// list(value)
[[nodiscard]] std::vector<Value> collect(Runtime& runtime, const Value& value);
// len(value), or nullopt when it has none.
[[nodiscard]] std::optional<std::size_t> length_of(const Value& value);
// The item of a view's dict entry.
[[nodiscard]] Value view_item(Runtime& runtime, const ViewObject& view, std::size_t index);

}  // namespace strata::text::jinja
