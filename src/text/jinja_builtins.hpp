// The tables of everything templates can name: filters, tests, methods and globals.
#pragma once

#include "src/text/jinja_callable.hpp"
#include "src/text/jinja_runtime.hpp"
#include "src/text/jinja_value.hpp"

#include <span>
#include <string_view>

namespace strata::text::jinja {

// value|name(arguments)
struct Filter {
  std::string_view name;
  Value (*call)(Runtime& runtime, const Value& input, CallArguments& arguments);
};
// value is name(arguments)
struct Test {
  std::string_view name;
  bool (*call)(Runtime& runtime, const Value& input, CallArguments& arguments);
};
// object.name(arguments)
struct Method {
  std::string_view name;
  BuiltinFunction call;
};

[[nodiscard]] const Filter* find_filter(std::string_view name);  // null when there is none
[[nodiscard]] const Test* find_test(std::string_view name);      // null when there is none
// The method of that name bound to the object, or a missing Value.
[[nodiscard]] Value find_method(Runtime& runtime, const Value& object, std::string_view name);
// The global function of that name, or a missing Value.
[[nodiscard]] Value find_global(Runtime& runtime, std::string_view name);

// The parts of the tables.
[[nodiscard]] std::span<const Filter> string_filters();
[[nodiscard]] std::span<const Filter> sequence_filters();
[[nodiscard]] std::span<const Filter> selection_filters();
[[nodiscard]] std::span<const Filter> value_filters();
[[nodiscard]] std::span<const Method> string_methods();

// The attribute argument of filters: "name", "address.city", "0.name" or an index. Items come
// before attributes.
class AttributePath {
 public:
  // A missing or None `attribute` leads to the item itself. `fallback`, when given, stands for what
  // is undefined.
  AttributePath(Runtime& runtime, const Value& attribute, Value fallback = {});
  [[nodiscard]] Value follow(Runtime& runtime, Value item) const;
  [[nodiscard]] int depth() const;  // of the deepest value it holds

 private:
  std::vector<Value> parts_;
  Value fallback_;
};

// dict(arguments): from pairs or another dict, and from keywords.
[[nodiscard]] DictObject dict_from(Runtime& runtime, CallArguments& arguments);
// datetime.strftime(format) of the runtime's time.
[[nodiscard]] std::string format_time(const Runtime& runtime, std::string_view format);

}  // namespace strata::text::jinja
