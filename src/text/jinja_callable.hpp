// What templates call: methods, globals, macros and loops; and how arguments reach C++.
#pragma once

#include "src/text/jinja_ast.hpp"
#include "src/text/jinja_iteration.hpp"
#include "src/text/jinja_runtime.hpp"
#include "src/text/jinja_value.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::text::jinja {

// The arguments of one call. A function takes its parameters in order, then calls finish(). A
// parameter is filled by the next positional argument, or else by the keyword argument of its name.
class CallArguments {
 public:
  CallArguments(Runtime& runtime, std::string_view function)
      : runtime_(runtime), function_(function) {}

  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  [[nodiscard]] Value required(std::string_view name);
  [[nodiscard]] Value optional(std::string_view name);  // a missing Value when not given
  [[nodiscard]] Value optional(std::string_view name, Value fallback);
  [[nodiscard]] bool flag(std::string_view name, bool fallback);  // any value, as true or false
  [[nodiscard]] Int integer(std::string_view name);
  [[nodiscard]] Int integer(std::string_view name, Int fallback);
  // Of a string; the value keeps it alive.
  [[nodiscard]] Value string(std::string_view name);
  // Fails when arguments are left over.
  void finish() const;
  // Python's own str and list methods know their parameters by position only.
  void positional_only() const;
  // The positional arguments not yet taken.
  [[nodiscard]] std::vector<Value> take_rest();
  [[nodiscard]] Value take_keyword(std::string_view name);  // a missing Value when not given

  [[nodiscard]] std::string_view function() const { return function_; }
  [[nodiscard]] Runtime& runtime() const { return runtime_; }

 private:
  [[nodiscard]] Int to_integer(std::string_view name, const Value& value) const;

  Runtime& runtime_;
  std::string_view function_;
  std::size_t next_ = 0;
};

using BuiltinFunction = Value (*)(Runtime& runtime, const Value& self, CallArguments& arguments);

// A function or method of the engine, with the object it belongs to; or a macro, with the scope it
// was defined in.
struct CallableObject {
  std::string_view name;
  BuiltinFunction builtin = nullptr;
  Value self;
  std::shared_ptr<const Macro> macro;
  std::shared_ptr<Scope> scope;
  int depth = 0;  // 1 + that of self
  MemoryShare share;
};

[[nodiscard]] Value make_builtin(Runtime& runtime, std::string_view name, BuiltinFunction function,
                                 const Value& self);
[[nodiscard]] std::string describe(const CallableObject& callable);

// The variable `loop`.
struct LoopObject {
  LoopObject(Cursor items, std::size_t depth) : cursor(std::move(items)), depth0(depth) {}

  Cursor cursor;
  std::size_t depth0;
  std::size_t index0 = static_cast<std::size_t>(-1);
  Value previous, current;
  Value ahead;          // looked at, not yet given
  bool peeked = false;  // `ahead` is what comes next, or missing at the end
  Value last_changed;
  // The loop to run again when the template calls `loop`, when it is recursive.
  const For* recursive = nullptr;
  std::shared_ptr<Scope> scope;
  MemoryShare share;

  bool next(Runtime& runtime);          // moves on; false at the end
  const Value& peek(Runtime& runtime);  // what comes next, or a missing Value
  void clear();                         // lets go of every value
  [[nodiscard]] std::size_t length(Runtime& runtime);
};

// An attribute of `loop`, or a missing Value.
[[nodiscard]] Value loop_attribute(Runtime& runtime, const Value& value, std::string_view name);

}  // namespace strata::text::jinja
